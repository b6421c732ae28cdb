"""`bioattn run evoformer --templates`: a real structure as template, against the model called by hand."""

import json

import h5py
import numpy as np
import pytest
import torch

from bioattn.alignments.input_features import encode_alignment, sample_input_features
from bioattn.alignments.templates import read_templates
from bioattn.attention.capture import capture
from bioattn.formats.alignment_file import read_alignment
from bioattn.models.evoformer.inputs import ModelInputs, TemplateInputs
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.store.inspection import validate_file
from tests.inference.evoformer_runs import CPU, model_of, run, write_config
from tests.making import bioattn

pytestmark = pytest.mark.shared
ROWS = 5


@pytest.fixture(scope="module")
def made(shared, tmp_path_factory):
    """An alignment of SH3 domains, its templates, and parameters with a template embedder."""
    folder = tmp_path_factory.mktemp("templates")
    source = shared / "data/msa_structure"
    records = (source / "msa/PF00018_2O9S_A.fasta").read_text().split(">")[1:9]
    (folder / "family.fasta").write_text("".join(f">{record}" for record in records))
    structure = source / "structure/PF00018_2O9S_A.pdb"
    words = ("prepare", "templates", folder / "family.fasta", structure, "-o", folder / "t.h5", "-q")
    assert bioattn(*words) == 0
    model_of(shared / "golden/templates/tiny_params_af2_templates.npz", folder / "model")
    return folder


@pytest.fixture
def options(made, tmp_path):
    text = f"[inputs]\nmax_msa_clusters = {ROWS}\nnum_recycles = 1\n"
    return ("--model", made / "model", "--config", write_config(tmp_path, text))


class Recorder:
    """A receiver of the weights of the last pass."""

    def receive(self, site, weights, value_weighted, tile=None):
        if tile.start == 0:
            self.weights = []
        self.weights.append(weights.numpy().copy())


def test_results_are_those_of_the_model_called_by_hand(made, options, tmp_path):
    source, out = made / "family.fasta", tmp_path / "out"
    config = options[-1]
    config.write_text(config.read_text() + '[attention]\nreduce = "none"\n')
    attention = ("--attention", tmp_path / "a.h5", "--sites", "template.*", "--sites", "*.msa_row")
    assert run(source, *options, "--templates", made / "t.h5", "-o", out, *attention) == 0
    model = load_evoformer_model(made / "model", CPU).model
    alignment = read_alignment(source)
    encoded = encode_alignment(alignment)
    templates = read_templates(made / "t.h5")
    # Columns in which the target has a gap have no template.
    columns = np.array([letter != "-" for letter in alignment.row(0)])
    shape = (1, len(columns))
    laid = {"aatype": np.full(shape, 21), "atom37": np.zeros((*shape, 37, 3), "f4")}
    laid["atom37_mask"] = np.zeros((*shape, 37), "f4")
    for name, array in laid.items():
        array[:, columns] = getattr(templates, name)
    recorder = Recorder()

    def sample(number):
        features = sample_input_features(
            encoded, max_clusters=ROWS, max_extra=5120, random=np.random.default_rng([0, number])
        )
        return ModelInputs.from_features(features)._replace(templates=TemplateInputs.from_atoms(**laid))

    with torch.no_grad(), capture(["template.pointwise"], recorder):
        expected = model(sample, 1)
    with h5py.File(out / "distogram.h5") as file:
        probability = expected.distogram_logits.softmax(-1).numpy()
        np.testing.assert_allclose(file["probability"][()], probability, atol=1e-5)
    with h5py.File(tmp_path / "a.h5") as file:
        site = file["sites/template.pointwise/s0000000"]
        np.testing.assert_allclose(site["weights"][()], np.concatenate(recorder.weights), atol=1e-5)
        assert list(site["key"].asstr()) == ["PF00018_2O9S_A_A"]
        assert file["samples/row_names/s0000000"].asstr()[-1] == "PF00018_2O9S_A_A"
        assert file["samples/rows"][0] == ROWS + 1
        assert file["sites/evoformer.00.msa_row/s0000000/weights"].shape[0] == ROWS + 1
    assert validate_file(tmp_path / "a.h5") == []
    assert validate_file(out) == []
    scores = json.loads((out / "scores.json").read_text())
    assert scores["templates"] == ["PF00018_2O9S_A_A"]
    assert scores["msa_clusters"] == ROWS
    assert bioattn("inspect", tmp_path / "a.h5") == 0
    # Without templates the site is not there, and the result is another.
    assert run(source, *options, "-o", tmp_path / "plain", *attention[:4]) != 0
    config.write_text(config.read_text().replace("none", "mean-rows"))
    assert run(source, *options, "-o", tmp_path / "plain", "--attention", tmp_path / "b.h5") == 0
    with h5py.File(tmp_path / "b.h5") as file, h5py.File(tmp_path / "plain/distogram.h5") as plain:
        assert "template.pointwise" not in file["sites"]
        assert np.abs(plain["probability"][()] - probability).max() > 0.01
    # A finished folder of other templates is not kept.
    assert run(source, *options, "-o", tmp_path / "plain", "--templates", made / "t.h5", "--resume") == 1


def test_templates_that_do_not_fit_are_refused(made, options, shared, tmp_path, capfd):
    msa = shared / "data/msa_structure/msa"
    templates = ("--templates", made / "t.h5", "-o", tmp_path / "out")
    without = ("--model", model_of(shared / "golden/tiny_params_af2.npz", tmp_path / "model"), *options[2:])
    for words, message in (
        ((made / "family.fasta", *without, *templates), "has no template embedder"),
        ((msa / "of_1UBQ.a3m", *options, *templates), "is not the sequence of the templates"),
        (
            (msa / "of_1UBQ.a3m", *options, "--templates", made / "family.fasta", *templates[2:]),
            "not an HDF5 file",
        ),
        ((msa, *options, *templates), "is of one target; give one alignment"),
    ):
        assert run(*words) in (1, 2)
        said = capfd.readouterr().err
        assert message in said
        assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()
