"""`bioattn run evoformer` through its front door: against the model called by hand, and run again."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from Bio.PDB import MMCIFParser, PDBParser

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import ContactProtein
from bioattn.alignments.input_features import encode_alignment, sample_input_features
from bioattn.attention.capture import capture
from bioattn.formats.alignment_file import read_alignment
from bioattn.io.files import sha256_of
from bioattn.models.evoformer.config import EvoformerTrainingConfig, InputSettings
from bioattn.models.evoformer.heads import plddt, predicted_tm_score
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.parameter_export import export_parameters
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.training_families import TrainingFamily, predict_contacts
from bioattn.store.inspection import validate_file
from tests.inference.evoformer_runs import (
    CPU,
    FILES,
    INPUTS,
    ROWS,
    STRUCTURE,
    STRUCTURE_FILES,
    arrays,
    make_model,
    model_of,
    run,
    write_config,
    write_fasta,
)
from tests.making import bioattn


def by_hand(model, path, settings, seed, first_pass=0):
    """The model on features made step by step from the file."""
    encoded = encode_alignment(read_alignment(path))
    passes = []
    for number in range(first_pass, first_pass + settings.num_recycles + 1):
        features = sample_input_features(
            encoded,
            max_clusters=settings.max_msa_clusters,
            max_extra=settings.max_extra_msa,
            random=np.random.default_rng([seed, number]),
        )
        fields = [torch.from_numpy(getattr(features, name)) for name in ModelInputs._fields[:-2]]
        sample = ModelInputs(*fields)
        passes.append(
            sample._replace(
                aatype=sample.aatype.long(),
                residue_index=sample.residue_index.long(),
                extra_msa=sample.extra_msa.long(),
            )
        )
    with torch.no_grad():
        return model(passes.__getitem__, settings.num_recycles)


def test_results_are_those_of_the_model_called_by_hand(model, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    out = tmp_path / "out"
    assert run(path, "--model", model, "-o", out, "--seed", 7, "--representations", "pair") == 0
    assert {file.name for file in out.iterdir()} == FILES | STRUCTURE_FILES | {
        *("representations.h5", "predicted_aligned_error.json")
    }
    assert (tmp_path / "bioattn-records/out.json").is_file()
    expected = by_hand(load_evoformer_model(model, CPU).model, path, INPUTS, seed=7)
    probability = expected.distogram_logits.softmax(-1).numpy()
    edges = np.linspace(2.3125, 21.6875, 63)
    distances = arrays(out / "distogram.h5")
    np.testing.assert_allclose(distances["probability"], probability, atol=1e-6)
    np.testing.assert_allclose(distances["bin_edge"], edges, atol=1e-5)
    below = np.append(edges, np.inf) <= 8
    np.testing.assert_allclose(distances["contact_probability"], probability[..., below].sum(-1), atol=1e-5)
    middles = np.append(edges - 0.3125 / 2, edges[-1] + 0.3125 / 2)
    np.testing.assert_allclose(
        distances["expected_distance"], (probability * middles).sum(-1), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_array_equal(distances["column_i"], np.arange(1, 29))
    np.testing.assert_array_equal(distances["residue_number"], np.arange(1, 29))
    with h5py.File(out / "representations.h5") as file:
        np.testing.assert_allclose(file["pair"][()], expected.pair.numpy(), rtol=1e-4, atol=1e-5)
    scores = json.loads((out / "scores.json").read_text())
    confidence = plddt(expected.plddt_logits).numpy()
    np.testing.assert_allclose(scores["plddt"], confidence, atol=6e-3)
    assert scores["ptm"] == pytest.approx(float(predicted_tm_score(expected.aligned_error_logits)), abs=1e-5)
    (pae,) = json.loads((out / "predicted_aligned_error.json").read_text())
    assert pae["max_predicted_aligned_error"] == 31.75
    middles = (np.arange(64) + 0.5) * 0.5
    errors = expected.aligned_error_logits.softmax(-1).numpy() @ middles
    np.testing.assert_allclose(pae["predicted_aligned_error"], errors, atol=0.501)
    assert {type(value) for row in pae["predicted_aligned_error"] for value in row} == {int}
    for parser, name in (
        (PDBParser(QUIET=True), "structure.pdb"),
        (MMCIFParser(QUIET=True), "structure.cif"),
    ):
        (chain,) = parser.get_structure("x", out / name).get_chains()
        residues = list(chain)
        assert [residue.id[1] for residue in residues] == list(range(1, 29))
        positions = np.array([residue["CA"].coord for residue in residues])
        np.testing.assert_allclose(positions, expected.structure.atom37[:, 1].numpy(), atol=6e-4)
        factors = [residue["CA"].bfactor for residue in residues]
        np.testing.assert_allclose(factors, confidence, atol=6e-3)


def test_contact_files_agree_with_the_distogram(model, tmp_path):
    rows = [row[:4] + "-" + row[5:] if number == 0 else row for number, row in enumerate(ROWS)]
    path = write_fasta(tmp_path / "x.fasta", rows)
    path.write_text(path.read_text().replace(">row0", ">target/101-127 words"))
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    lines = (tmp_path / "out/contacts.rr").read_text().splitlines()
    assert lines[0] == "PFRMAT RR"
    assert lines[1] == "TARGET x"
    assert rows[0] in lines
    contact = arrays(tmp_path / "out/distogram.h5")["contact_probability"]
    pairs = [line.split() for line in lines if line[0].isdigit()]
    assert len(pairs) > 50
    values = [float(p) for *_, p in pairs]
    assert values == sorted(values, reverse=True)
    for i, j, low, high, p in pairs:
        assert (low, high) == ("0", "8")
        assert int(j) - int(i) >= 6
        assert float(p) == pytest.approx(contact[int(i) - 1, int(j) - 1], abs=6e-6)
    table = [line.split("\t") for line in (tmp_path / "out/contacts.tsv").read_text().splitlines()]
    assert table[0][:4] == ["column_i", "column_j", "residue_i", "residue_j"]
    assert [row[:2] for row in table[1:]] == [pair[:2] for pair in pairs]
    for row in table[1:]:
        for column, residue, letter in ((row[0], row[2], row[4]), (row[1], row[3], row[5])):
            place = int(column) - 1
            assert letter == rows[0][place]
            assert residue == ("" if place == 4 else str(101 + place - (place > 4)))
    (chain,) = PDBParser(QUIET=True).get_structure("x", tmp_path / "out/structure.pdb").get_chains()
    assert [residue.id[1] for residue in chain] == list(range(101, 128))


def test_distances_are_averaged_over_samples(trunk, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, "--model", trunk, "-o", tmp_path / "out") == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES
    loaded = load_evoformer_model(trunk, CPU)
    samples = [
        by_hand(loaded.model, path, loaded.inputs, 0, first_pass=number).distogram_logits.softmax(-1)
        for number in range(2)
    ]
    assert not torch.allclose(*samples)
    np.testing.assert_allclose(
        arrays(tmp_path / "out/distogram.h5")["probability"], sum(samples).numpy() / 2, atol=1e-6
    )


@pytest.mark.shared
def test_published_layout_from_alignment_to_atoms(shared, tmp_path):
    """AlphaFold's form of parameters, an alignment with every trap, the model called by hand."""
    golden = shared / "golden"
    source = golden / "features_small.a3m"
    folder = model_of(golden / "tiny_params_af2.npz", tmp_path / "model")
    config = write_config(tmp_path, "[inputs]\nmax_msa_clusters = 9\nmax_extra_msa = 5\n")
    options = ("--config", config, "--max-msa-clusters", 6, "--recycles", 2)
    assert run(source, "--model", folder, *options, "-o", tmp_path / "out", "--seed", 1) == 0
    model = load_evoformer_model(folder, CPU).model
    settings = InputSettings(max_msa_clusters=6, max_extra_msa=5, num_recycles=2)
    expected = by_hand(model, source, settings, seed=1)
    np.testing.assert_allclose(
        arrays(tmp_path / "out/distogram.h5")["probability"],
        expected.distogram_logits.softmax(-1).numpy(),
        atol=1e-5,
    )
    (chain,) = PDBParser(QUIET=True).get_structure("x", tmp_path / "out/structure.pdb").get_chains()
    for residue in chain:
        place = residue.id[1] - 1
        np.testing.assert_allclose(
            residue["CA"].coord, expected.structure.atom37[place, 1].numpy(), atol=6e-4
        )


def test_parameter_files_run_as_the_folder_they_came_from(tmp_path):
    model = make_model(tmp_path / "model", structure_module=replace(STRUCTURE, num_layers=8))
    path = write_fasta(tmp_path / "x.fasta")
    config = write_config(tmp_path, "[inputs]\nmax_extra_msa = 7\n")
    results = []
    sizes = ("--max-msa-clusters", 5, "--recycles", 1)
    for name in ("p.npz", "p.pt"):
        export_parameters(model, tmp_path / name)
        out = tmp_path / f"out-{name}"
        options = ("--config", config, *sizes, "-o", out)
        assert run(path, "--parameters", tmp_path / name, *options) == 0
        results.append(arrays(out / "distogram.h5")["probability"])
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    for result in results:
        np.testing.assert_array_equal(result, arrays(tmp_path / "out/distogram.h5")["probability"])


def test_results_and_record_name_the_model(trunk, tmp_path, monkeypatch):
    """Also where an alignment is called `model`."""
    path = write_fasta(tmp_path / "model.fasta")
    export_parameters(trunk, tmp_path / "p.npz")
    monkeypatch.chdir(trunk)
    for number, (option, value, name) in enumerate(
        (
            ("--model", trunk, "trunk/model.safetensors"),
            ("--model", ".", "trunk/model.safetensors"),
            ("--parameters", tmp_path / "p.npz", "p.npz"),
        )
    ):
        out = tmp_path / f"out{number}"
        assert run(path, option, value, "-o", out) == 0
        weights = Path(value) if option == "--parameters" else trunk / "model.safetensors"
        expected = {"file": name, "sha256": sha256_of(weights)}
        assert json.loads((out / "scores.json").read_text())["model"] == expected
        record = json.loads((out.parent / "bioattn-records" / f"{out.name}.json").read_text())
        assert record["model"] == expected
        assert record["inputs"] == {"model": {"file": "model.fasta", "sha256": sha256_of(path)}}


def test_several_models_are_ranked(model, trunk, tmp_path, capsys):
    """Each as if it ran alone; the trunk, without pLDDT, comes last."""
    export_parameters(model, tmp_path / "p.npz")
    other = make_model(tmp_path / "other", replace(INPUTS, num_recycles=0), single_channels=10)
    path, out = write_fasta(tmp_path / "x.fasta"), tmp_path / "out"
    words = ["--model", trunk, "--parameters", tmp_path / "p.npz", "--model", other, "-o", out]
    assert run(path, *words) == 0
    table = [line.split("\t") for line in (out / "ranking.tsv").read_text().splitlines()]
    assert table[0] == ["alignment", "rank", "model", "mean_plddt", "ptm"]
    assert [row[1] for row in table[1:]] == ["1", "2", ""]  # the last has no pLDDT to rank by
    assert table[3] == ["x", "", "trunk", "", ""]
    found = {row[2]: json.loads((out / row[2] / "scores.json").read_text()) for row in table[1:]}
    by_hand = sorted(["p", "other"], key=lambda name: -found[name]["mean_plddt"])
    assert [row[2] for row in table[1:3]] == by_hand
    assert [float(row[3]) for row in table[1:3]] == [found[name]["mean_plddt"] for name in by_hand]
    assert {row[2]: row[4] for row in table[1:3]} == {"p": str(found["p"]["ptm"]), "other": ""}
    assert run(path, "--model", other, "-o", tmp_path / "alone") == 0
    for file in (tmp_path / "alone").iterdir():
        assert file.read_bytes() == (out / "other" / file.name).read_bytes(), file.name
    before = (out / "ranking.tsv").read_bytes()
    assert run(path, *words) == 1
    assert "out/trunk" in capsys.readouterr().err
    assert run(path, *words, "--resume") == 0
    assert (out / "ranking.tsv").read_bytes() == before
    assert bioattn("validate", out) == 0
    record = json.loads((tmp_path / "bioattn-records/out.json").read_text())
    assert [each["model"]["file"] for each in record["models"]][1:] == ["p.npz", "other/model.safetensors"]


def test_the_query_makes_the_columns(model, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, "--model", model, "-o", tmp_path / "out", "--query", "row2") == 0
    query = ROWS[2].replace("-", "")
    assert query in (tmp_path / "out/contacts.rr").read_text().splitlines()
    distances = arrays(tmp_path / "out/distogram.h5")
    assert len(distances["probability"]) == len(query) == 25
    assert run(path, "--model", model, "-o", tmp_path / "none", "--query", "nobody") == 1
    assert not (tmp_path / "none").exists()


def test_a_target_with_gaps_is_run_with_a_warning(model, tmp_path, capsys):
    path = write_fasta(tmp_path / "x.fasta", ROWS[2:])
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    warned = capsys.readouterr().err
    assert "row 1, the target, has gaps in 3 columns, which count as unknown residues" in warned
    assert "--query row0" in warned
    (chain,) = PDBParser(QUIET=True).get_structure("x", tmp_path / "out/structure.pdb").get_chains()
    assert len(list(chain)) == 25
    assert "".join(ROWS[2]) in (tmp_path / "out/contacts.rr").read_text()


def test_columns_of_gaps_are_left_out_where_the_model_wants_it(tmp_path):
    folder = make_model(
        tmp_path / "m",
        InputSettings(max_msa_clusters=4, max_extra_msa=5, num_recycles=0, max_gap_column=0.5),
        structure_module=None,
    )
    gappy = [row[:10] + ("-" * 3 if number else "-A-") + row[10:] for number, row in enumerate(ROWS)]
    path = write_fasta(tmp_path / "x.fasta", gappy)
    assert run(path, "--model", folder, "-o", tmp_path / "out") == 0
    columns = arrays(tmp_path / "out/distogram.h5")["column_i"]
    np.testing.assert_array_equal(columns, [n for n in range(1, 32) if n not in (11, 13)])
    used = {
        int(part)
        for line in (tmp_path / "out/contacts.rr").read_text().splitlines()
        if line[0].isdigit()
        for part in line.split()[:2]
    }
    assert used <= set(columns.tolist())
    assert max(used) == 31


@pytest.mark.parametrize("pair_features", [0, 3])
def test_a_trained_model_is_run_as_it_was_judged(pair_features, tmp_path):
    settings = EvoformerTrainingConfig(max_msa_clusters=3, prediction_samples=2).prediction_inputs
    model = make_model(
        tmp_path / "m",
        settings,
        structure_module=None,
        recycling=False,
        experimentally_resolved_head=False,
        pair_features=pair_features,
    )
    gappy = [row[:10] + ("--" if number else "A-") + row[10:] for number, row in enumerate(ROWS)]
    path = write_fasta(tmp_path / "x.fasta", [*gappy, gappy[3]])
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    encoded = encode_alignment(read_alignment(path))
    protein = ContactProtein(
        id="x",
        group="x",
        split=0,
        chain="A",
        msa=encoded.msa,
        deletions=encoded.deletions,
        aatype=encoded.aatype,
        cb=np.zeros((encoded.msa.shape[1], 3), np.float32),
        residue_numbers=[str(number) for number in range(encoded.msa.shape[1])],
    )
    family = TrainingFamily(protein)
    expected = predict_contacts(load_evoformer_model(model, CPU).model, family, settings)
    distances = arrays(tmp_path / "out/distogram.h5")
    np.testing.assert_array_equal(distances["column_i"], family.columns + 1)
    assert 12 not in distances["column_i"]
    np.testing.assert_allclose(distances["contact_probability"], expected, atol=1e-6)


def test_attention_is_that_of_the_last_pass(model, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    site = "evoformer.01.msa_row"
    config = write_config(tmp_path, '[attention]\nheads = [1]\nreduce = "none"\n')
    options = ("--attention", tmp_path / "att.h5", "--sites", site, "--config", config)
    assert run(path, "--model", model, "-o", tmp_path / "out", *options) == 0
    assert validate_file(tmp_path / "att.h5") == []
    heard: list[torch.Tensor] = []

    class Sink:
        def receive(self, _site, weights, _norms, _tile=None):
            heard.append(weights.clone())

    with capture([site], Sink()):
        by_hand(load_evoformer_model(model, CPU).model, path, INPUTS, seed=0)
    both = torch.cat(heard)  # rows of the first pass, then rows of the last
    assert len(both) == 2 * 5
    last = sample_input_features(
        encode_alignment(read_alignment(path)),
        max_clusters=INPUTS.max_msa_clusters,
        max_extra=INPUTS.max_extra_msa,
        random=np.random.default_rng([0, 1]),
    )
    with h5py.File(tmp_path / "att.h5") as file:
        weights = file[f"sites/{site}/s0000000/weights"][()]
        for kind, drawn in (("row_names", last.true_msa), ("extra_row_names", last.extra_msa)):
            names = file[f"samples/{kind}/s0000000"].asstr()[:].tolist()
            assert names == [f"row{ROWS.index(letters_of(row))}" for row in drawn]
    np.testing.assert_allclose(weights, both[5:, 1:2].numpy(), atol=1e-6)
    assert not np.allclose(weights, both[:5, 1:2].numpy(), atol=1e-3)
