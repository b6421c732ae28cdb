"""Attribution files by the front door: what is written, resumed, refused and found."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.errors import Interrupted
from bioattn.inference.promoter_windows import make_batch
from bioattn.interpret.attribution import IntegratedGradients, Mutagenesis, run_attribution
from bioattn.interpret.choices import ExplainAttribution, MethodSettings
from bioattn.io.files import partial_path
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.promoter_fasta import Promoter, read_promoters, write_promoters
from bioattn.store.attribution import open_attribution
from bioattn.store.inspection import validate_file
from bioattn.system.progress import SILENT
from tests.making import bioattn
from tests.result_files import assert_same_content

NUMBER = 7


@pytest.fixture
def model(make_model, tmp_path):
    """A binary model in a folder."""
    folder = tmp_path / "model"
    folder.mkdir()
    make_model(task="binary").write(folder)
    return folder


@pytest.fixture
def promoters(tmp_path):
    """Every third one short, one without a place, flanks on every second."""
    random = np.random.default_rng(1)
    records = []
    for i in range(NUMBER):
        length, flank = 70 - 13 * (i % 3 == 2), 5 * (i % 2)
        place = ("chrI", 500 * i, 500 * i + length, "+-"[i % 2]) if i else ("", -1, -1, ".")
        codes = random.integers(0, 4, length + 2 * flank, dtype=np.uint8)
        records.append(Promoter(f"G{i}", *place, flank if i else 0, codes))
    write_promoters(tmp_path / "promoters.fa", records)
    return tmp_path / "promoters.fa"


def explain(model, promoters, output, *options):
    return bioattn("explain", "attribution", model, promoters, "-o", output, "--threads", "1", *options)


def codes_of(promoters, length=70):
    return make_batch(list(read_promoters(promoters)), length).codes


def test_the_file_holds_what_the_method_gives(model, promoters, tmp_path):
    assert explain(model, promoters, tmp_path / "x.h5") == 0

    loaded = load_promoter_model(model, torch.device("cpu"))
    codes = codes_of(promoters)
    wanted = Mutagenesis(loaded.predictor(), reuse_trunk=False)(codes)
    with open_attribution(tmp_path / "x.h5") as file:
        assert file.method == "ism"
        assert file.task == "binary"
        assert file.window_length == 70
        assert list(file.samples.index) == [f"G{i}" for i in range(NUMBER)]
        assert file.samples.loc["G3"].tolist() == ["chrI", 1500, 1570, "-", ""]
        np.testing.assert_array_equal(file.sequences(), codes)
        np.testing.assert_allclose(file.values(), wanted.values_BTLA, atol=1e-5)
        assert file.completeness_gap() is None
        probabilities = 1 / (1 + np.exp(-wanted.predictions_BT.astype(float)))
        np.testing.assert_allclose(file.predictions(), probabilities, atol=1e-5)
        values = file.values()
        one = file.values(gene="G4", treatment="h2o2-20")
        assert one.shape == (70, 4)
        np.testing.assert_array_equal(one, values[4, 1])
        several = file.values(gene=["G4", "G1"], treatment=["dtt-10", "heat-5"])
        np.testing.assert_array_equal(several, values[[4, 1]][:, [3, 0]])
        contributions = file.contributions(gene=slice(2, 4))
        for row, promoter in enumerate((2, 3)):
            for position, base in enumerate(codes[promoter]):
                present = values[promoter, :, position, base] if base < 4 else np.zeros(4)
                np.testing.assert_array_equal(contributions[row, :, position], present)
        assert file.contributions(gene="G2", treatment="heat-40").shape == (70,)
    assert validate_file(tmp_path / "x.h5") == []


def test_choices_and_the_record(model, promoters, tmp_path, capfd):
    (tmp_path / "genes.txt").write_text("G5\nG1\n")
    options = ["--treatment", "dtt-10", "--treatment", "heat-5", "--genes", str(tmp_path / "genes.txt")]

    assert explain(model, promoters, tmp_path / "some.h5", *options) == 0
    assert explain(model, promoters, tmp_path / "all.h5") == 0

    said = capfd.readouterr().err
    assert "attribution of 2 promoters × 2 treatments takes" in said
    assert "1 of 2 promoters do not fill" in said
    with open_attribution(tmp_path / "some.h5") as some, open_attribution(tmp_path / "all.h5") as everything:
        assert list(some.samples.index) == ["G1", "G5"]
        assert some.treatments == ["dtt-10", "heat-5"]
        wanted = everything.values(gene=["G1", "G5"], treatment=["dtt-10", "heat-5"])
        np.testing.assert_allclose(some.values(), wanted, atol=1e-5)
    record = json.loads((tmp_path / "bioattn-records/some.h5.json").read_text())
    assert record["promoters"] == 2
    assert bioattn("validate", tmp_path / "some.h5") == 0
    assert bioattn("inspect", tmp_path / "some.h5") == 0
    assert "attribution HDF5" in capfd.readouterr().out


@pytest.mark.parametrize("method", ["gradient-input", "integrated-gradients"])
def test_gradients_by_the_front_door(model, promoters, tmp_path, method, capfd):
    options = ["--method", method]
    if method == "integrated-gradients":
        options += ["--steps", "20"]
    assert explain(model, promoters, tmp_path / "x.h5", *options) == 0
    with open_attribution(tmp_path / "x.h5") as file:
        gap = file.completeness_gap()
        assert (gap is None) == (method == "gradient-input")
        if gap is not None:
            assert file.method_settings == "steps=20 baseline=uniform"
            loaded = load_promoter_model(model, torch.device("cpu"))
            found = IntegratedGradients(loaded.predictor(), 20)(codes_of(promoters))
            np.testing.assert_array_equal(gap, found.gap_BT)
            assert f"by at most {np.abs(gap.to_numpy()).max():.3g}" in capfd.readouterr().err
    assert validate_file(tmp_path / "x.h5") == []


def test_interrupted_and_resumed_gives_the_same_content(model, promoters, tmp_path, monkeypatch):
    running = SimpleNamespace(progress=SILENT, device=lambda *_: torch.device("cpu"))

    def attribute(output, **options):
        settings = MethodSettings()
        given = ExplainAttribution(
            model=model, promoters=promoters, output=output, settings=settings, **options
        )
        return run_attribution(given, running)

    attribute(tmp_path / "whole.h5")
    calls = []

    def stop_in_the_fifth(self, codes):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return whole_call(self, codes)

    whole_call = Mutagenesis.__call__
    output = tmp_path / "stopped.h5"
    with monkeypatch.context() as patch:
        patch.setattr(Mutagenesis, "__call__", stop_in_the_fifth)
        with pytest.raises(Interrupted, match="stopped after 4 of 7 promoters"):
            attribute(output)
    assert not output.exists()
    assert bioattn("inspect", partial_path(output)) == 0

    assert attribute(output, resume=True).figures["resumed_promoters"] == 4
    assert_same_content(output, tmp_path / "whole.h5")
    assert not partial_path(output).exists()


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--genes", "GX"], 1, "GX"),
        (["--treatment", "cold"], 1, "cold"),
        (["--method", "integrated-gradients", "--steps", "0"], 2, "steps"),
        (["--steps", "9"], 2, "--steps is for --method integrated-gradients, not ism"),
    ],
)
def test_what_cannot_be_is_one_sentence(model, promoters, tmp_path, options, code, sentence, capfd):
    assert explain(model, promoters, tmp_path / "x.h5", *options) == code
    said = capfd.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert not (tmp_path / "x.h5").exists()
    assert not partial_path(tmp_path / "x.h5").exists()


def test_arrays_for_other_programs(model, promoters, tmp_path):
    assert explain(model, promoters, tmp_path / "x.h5") == 0
    command = ["export", "arrays", tmp_path / "x.h5", "-o", tmp_path / "arrays"]

    assert bioattn(*command, "--treatment", "heat-40", "--treatment", "dtt-10") == 0

    codes = codes_of(promoters)
    sequences = np.load(tmp_path / "arrays" / "sequences.npz")["arr_0"]
    assert sequences.dtype == np.float32
    for row, position in ((0, 3), (2, 0), (5, 69)):
        base = codes[row, position]
        np.testing.assert_array_equal(sequences[row, :, position], [base == b for b in range(4)])
    table = pd.read_csv(tmp_path / "arrays" / "treatments.tsv", sep="\t")
    assert table["treatment"].tolist() == ["heat-40", "dtt-10"]
    with open_attribution(tmp_path / "x.h5") as file:
        for name, treatment in zip(table["file"], table["treatment"], strict=True):
            values = np.load(tmp_path / "arrays" / name)["arr_0"]
            np.testing.assert_array_equal(values, file.values(treatment=treatment).transpose(0, 2, 1))
    genes = pd.read_csv(tmp_path / "arrays" / "genes.tsv", sep="\t")
    assert genes["gene_id"].tolist() == [f"G{i}" for i in range(NUMBER)]

    assert bioattn(*command) == 1
    assert bioattn(*command, "--force", "--genes", "G3", "--genes", "G1") == 0
    assert np.load(tmp_path / "arrays" / "sequences.npz")["arr_0"].shape == (2, 4, 70)
    assert not (tmp_path / "arrays" / "run.json").exists()
    assert len(list((tmp_path / "arrays").glob("*.npz"))) == 5
