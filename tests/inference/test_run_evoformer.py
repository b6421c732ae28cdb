"""`bioattn run evoformer` through its front door: against the model called by hand, every format, failures."""

import errno
import gzip
import json
import lzma
import os
import re
import shutil
import signal
from collections.abc import Callable
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
from bioattn.errors import Interrupted
from bioattn.files import sha256_of
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.seal import check_seal
from bioattn.inference import alignment_runner, evoformer_memory, evoformer_prediction
from bioattn.inference.alignment_runner import AttentionOutput, RunSettings
from bioattn.inference.alignment_sources import find_alignments
from bioattn.inference.evoformer import run_alignments
from bioattn.models.evoformer.confidence import plddt, predicted_tm_score
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.folder import load_evoformer_model, write_evoformer_model
from bioattn.models.evoformer.input_settings import InputSettings
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.model import EvoformerModel, ModelOutputs
from bioattn.models.evoformer.parameters.export import export_parameters
from bioattn.models.evoformer.structure_module.config import StructureModuleConfig
from bioattn.progress import NoProgress
from bioattn.store.alignment_schema import AlignmentAttentionOptions, AlignmentSizes
from bioattn.store.validation import validate_file
from bioattn.training.evoformer.config import EvoformerTrainingConfig
from bioattn.training.evoformer.families import TrainingFamily
from bioattn.training.evoformer.prediction import predict_contacts
from bioattn_cli.main import main

CPU = torch.device("cpu")
INPUTS = InputSettings(max_msa_clusters=5, max_extra_msa=7, num_recycles=1)
SHAPE = {
    "msa_channels": 16,
    "pair_channels": 8,
    "extra_msa_channels": 8,
    "single_channels": 12,
    "msa_heads": 2,
    "pair_heads": 2,
    "extra_msa_heads": 2,
    "outer_product_channels": 4,
    "triangle_multiplication_channels": 8,
    "num_blocks": 2,
    "num_extra_msa_blocks": 1,
}
STRUCTURE = StructureModuleConfig(
    num_layers=2, num_heads=2, head_channels=4, num_query_points=2, num_value_points=3, angle_channels=8
)
ROWS = [
    "MKTAYIAKQRQISFVKSHFSRQLEERLG",
    "MKTAYLAKQRNISFVKAHFSRQLEDRLG",
    "-KTSYIARQRQISWVKSHFSKQ--ERLG",
    "MRTAYIAKHRQVSFIKSHYSRQLEERMG",
    "MKSAYIGKQRQISFVRSHFSRELEERL-",
    "LKTAFIAKQKQITFVKSNFSRQLDERLG",
    "MKTAYIAKQRQLSFVKTHFARQLEEKLG",
    "MKTGYVAKQRQISYVKSHFSRQMEERLA",
    "MQTAYIAKNRQISFVKSHWSRQLEERIG",
    "MKTAYISKQRQISFVNSHFSRQLE--LG",
]
FILES = {"contacts.rr", "contacts.tsv", "distogram.h5", "scores.json"}
STRUCTURE_FILES = {"structure.pdb", "structure.cif"}


def make_model(folder: Path, inputs: InputSettings = INPUTS, **settings: object) -> Path:
    """A model with random weights, in a folder."""
    torch.manual_seed(3)
    model = EvoformerModel(EvoformerConfig(**{**SHAPE, "structure_module": STRUCTURE, **settings}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "normalise" not in name:
                parameter.normal_(std=0.3)
    folder.mkdir()
    write_evoformer_model(folder, model, inputs)
    return folder


def write_fasta(path: Path, rows: list[str] = ROWS) -> Path:
    path.write_text("".join(f">row{number}\n{row}\n" for number, row in enumerate(rows)))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "whole", aligned_error_head=True)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(
        tmp_path_factory.mktemp("models") / "trunk",
        InputSettings(max_msa_clusters=4, max_extra_msa=5, num_recycles=0, num_samples=2),
        structure_module=None,
        recycling=False,
        experimentally_resolved_head=False,
    )


def run(*arguments: object) -> int:
    return main(["run", "evoformer", *map(str, arguments), "-q"])


def write_config(folder: Path, text: str) -> Path:
    """A settings file for --config."""
    path = folder / "run.toml"
    path.write_text(text)
    return path


def arrays(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}


def by_hand(
    model: EvoformerModel, path: Path, settings: InputSettings, seed: int, first_pass: int = 0
) -> ModelOutputs:
    """The model on features made step by step from the file."""
    encoded = encode_alignment(read_alignment(path), allow_incomplete_query=True)
    passes = []
    for number in range(first_pass, first_pass + settings.num_recycles + 1):
        features = sample_input_features(
            encoded,
            max_clusters=settings.max_msa_clusters,
            max_extra=settings.max_extra_msa,
            random=np.random.default_rng([seed, number]),
        )
        fields = [torch.from_numpy(getattr(features, name)) for name in ModelInputs._fields[:-1]]
        sample = ModelInputs(*fields)
        passes.append(
            sample._replace(
                aatype=sample.aatype.long(),
                residue_index=sample.residue_index.long(),
                extra_msa=sample.extra_msa.long(),
            )
        )
    with torch.no_grad():
        return model(passes, settings.num_recycles)


def test_results_are_those_of_the_model_called_by_hand(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    out = tmp_path / "out"
    assert run(path, "--model", model, "-o", out, "--seed", 7, "--representations", "pair") == 0
    assert {file.name for file in out.iterdir()} == FILES | STRUCTURE_FILES | {"representations.h5"}
    assert (tmp_path / "out.run.json").is_file()
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
    assert check_seal(out / "distogram.h5")
    scores = json.loads((out / "scores.json").read_text())
    confidence = plddt(expected.plddt_logits).numpy()
    np.testing.assert_allclose(scores["plddt"], confidence, atol=6e-3)
    assert scores["ptm"] == pytest.approx(float(predicted_tm_score(expected.aligned_error_logits)), abs=1e-5)
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


def test_contact_files_agree_with_the_distogram(model: Path, tmp_path: Path) -> None:
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


def test_distances_are_averaged_over_samples(trunk: Path, tmp_path: Path) -> None:
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
def test_published_layout_from_alignment_to_atoms(shared: Path, tmp_path: Path) -> None:
    """AlphaFold's form of parameters, an alignment with every trap, the model called by hand."""
    golden = shared / "golden"
    source, parameters = golden / "features_small.a3m", golden / "tiny_params_af2.npz"
    config = write_config(
        tmp_path, "[parameters]\nstructure_layers = 2\n[inputs]\nmax_msa_clusters = 9\nmax_extra_msa = 5\n"
    )
    options = ("--config", config, "--max-msa-clusters", 6, "--recycles", 2)
    assert run(source, "--parameters", parameters, *options, "-o", tmp_path / "out", "--seed", 1) == 0
    model = load_evoformer_model(parameters, CPU, 2).model
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


def test_parameter_files_run_as_the_folder_they_came_from(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    config = write_config(tmp_path, "[parameters]\nstructure_layers = 2\n[inputs]\nmax_extra_msa = 7\n")
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


def stockholm(rows: list[str]) -> str:
    lines = "".join(f"row{number} {row}\n" for number, row in enumerate(rows))
    return f"# STOCKHOLM 1.0\n{lines}//\n"


def clustal(rows: list[str]) -> str:
    blocks = []
    for start in range(0, len(rows[0]), 20):
        blocks.append("".join(f"row{n}     {row[start : start + 20]}\n" for n, row in enumerate(rows)))
    return "CLUSTAL W (1.83) multiple sequence alignment\n\n" + "\n".join(blocks)


def phylip(rows: list[str]) -> str:
    return f" {len(rows)} {len(rows[0])}\n" + "".join(f"row{n:<7} {row}\n" for n, row in enumerate(rows))


FORMATS: dict[str, Callable[[list[str]], bytes]] = {
    "x.a3m": lambda rows: "".join(f">row{n}\n{row}\n" for n, row in enumerate(rows)).encode(),
    "x.sto": lambda rows: stockholm(rows).encode(),
    "x.clw": lambda rows: clustal(rows).encode(),
    "x.phy": lambda rows: phylip(rows).encode(),
    "x.aln": lambda rows: "".join(f"{row}\n" for row in rows).encode(),
    "x.fa.gz": lambda rows: gzip.compress(FORMATS["x.a3m"](rows)),
    "x.sto.xz": lambda rows: lzma.compress(stockholm(rows).encode()),
}


def test_every_format_gives_the_same_contacts(trunk: Path, tmp_path: Path) -> None:
    assert run(write_fasta(tmp_path / "x.fasta"), "--model", trunk, "-o", tmp_path / "out") == 0
    expected = (tmp_path / "out/contacts.rr").read_bytes()
    for name, render in FORMATS.items():
        (tmp_path / name).write_bytes(render(ROWS))
        assert run(tmp_path / name, "--model", trunk, "-o", tmp_path / f"out-{name}") == 0, name
        assert (tmp_path / f"out-{name}/contacts.rr").read_bytes() == expected, name


def test_results_and_record_name_the_model(
    trunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        record = json.loads(out.with_name(out.name + ".run.json").read_text())
        assert record["model"] == expected
        assert record["inputs"] == {"model": {"file": "model.fasta", "sha256": sha256_of(path)}}


def test_the_same_run_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    for name in ("one", "two"):
        assert run(path, "--model", model, "-o", tmp_path / name) == 0
    assert run(path, "--model", model, "-o", tmp_path / "other", "--seed", 1) == 0
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        assert (tmp_path / "one" / name).read_bytes() != (tmp_path / "other" / name).read_bytes(), name


def test_the_query_makes_the_columns(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, "--model", model, "-o", tmp_path / "out", "--query", "row2") == 0
    query = ROWS[2].replace("-", "")
    assert query in (tmp_path / "out/contacts.rr").read_text().splitlines()
    distances = arrays(tmp_path / "out/distogram.h5")
    assert len(distances["probability"]) == len(query) == 25
    assert run(path, "--model", model, "-o", tmp_path / "none", "--query", "nobody") == 1
    assert not (tmp_path / "none").exists()


def test_a_target_with_gaps_is_run_with_a_warning(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_fasta(tmp_path / "x.fasta", ROWS[2:])
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    warned = capsys.readouterr().err
    assert "row 1, the target, has gaps in 3 columns, which count as unknown residues" in warned
    assert "--query row0" in warned
    (chain,) = PDBParser(QUIET=True).get_structure("x", tmp_path / "out/structure.pdb").get_chains()
    assert len(list(chain)) == 25
    assert "".join(ROWS[2]) in (tmp_path / "out/contacts.rr").read_text()


def test_columns_of_gaps_are_left_out_where_the_model_wants_it(tmp_path: Path) -> None:
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
def test_a_trained_model_is_run_as_it_was_judged(pair_features: int, tmp_path: Path) -> None:
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
    encoded = encode_alignment(read_alignment(path), allow_incomplete_query=True)
    protein = ContactProtein(
        id="x",
        group="x",
        split=0,
        chain="A",
        msa=encoded.msa,
        deletions=encoded.deletions,
        aatype=encoded.aatype,
        cb=np.zeros((encoded.num_columns, 3), np.float32),
        residue_numbers=[str(number) for number in range(encoded.num_columns)],
    )
    family = TrainingFamily(protein)
    expected = predict_contacts(load_evoformer_model(model, CPU).model, family, settings)
    distances = arrays(tmp_path / "out/distogram.h5")
    np.testing.assert_array_equal(distances["column_i"], family.columns + 1)
    assert 12 not in distances["column_i"]
    np.testing.assert_allclose(distances["contact_probability"], expected, atol=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three alignments, the second of which cannot be read."""
    (tmp_path / "in").mkdir()
    write_fasta(tmp_path / "in/a.fasta")
    write_fasta(tmp_path / "in/b.fasta", [*ROWS, "SHORT"])
    write_fasta(tmp_path / "in/c.fasta", ROWS[1:])
    return tmp_path / "in"


def test_one_bad_alignment_does_not_stop_the_rest(
    trunk: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(folder, "--model", trunk, "-o", out, "--attention", tmp_path / "att.h5") == 1
    assert {path.name for path in out.iterdir()} == {"a", "c"}
    said = capsys.readouterr().err
    assert "1 of 3 alignments failed: b; " in said.splitlines()[-1]
    assert said.count("b.fasta") == 1
    record = json.loads((tmp_path / "out.run.json").read_text())
    assert record["finished"] == ["a", "c"]
    assert list(record["failed"]) == ["b"]
    assert validate_file(tmp_path / "att.h5") == []
    with h5py.File(tmp_path / "att.h5") as file:
        assert [name.decode() for name in file["samples/id"][()]] == ["a", "c"]
    # Alone, each gives the same bytes.
    options = ("--model", trunk, "-o", tmp_path / "alone", "--attention", tmp_path / "alone.h5")
    assert run(folder / "c.fasta", *options) == 0
    for name in FILES:
        assert (tmp_path / "alone" / name).read_bytes() == (out / "c" / name).read_bytes()


def test_a_missing_file_of_a_list_does_not_stop_the_rest(
    trunk: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.txt").write_text("# all\nin/none.a3m\nin/a.fasta\nin/c.fasta\n")
    assert run(tmp_path / "list.txt", "--model", trunk, "-o", tmp_path / "out") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "c"]
    said = capsys.readouterr().err
    assert f"none is left out: {tmp_path / 'in/none.a3m'}: no such file" in said
    assert "1 of 3 alignments failed: none; " in said.splitlines()[-1]
    assert list(json.loads((tmp_path / "out.run.json").read_text())["failed"]) == ["none"]


def test_resume_keeps_what_is_finished_and_the_same(trunk: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_fasta(folder / "b.fasta", ROWS[2:])
    assert run(folder, "--model", trunk, "-o", out) == 0
    shutil.rmtree(out / "b")
    kept = (out / "a/scores.json").stat()
    assert run(folder, "--model", trunk, "-o", out) == 1  # neither --resume nor --force
    shutil.rmtree(out / "b", ignore_errors=True)
    assert run(folder, "--model", trunk, "-o", out, "--resume") == 0
    assert (out / "a/scores.json").stat().st_mtime_ns == kept.st_mtime_ns
    assert (out / "b/contacts.rr").is_file()
    record = json.loads((tmp_path / "out.run.json").read_text())
    assert (record["finished"], record["resumed"]) == (["b"], ["a", "c"])
    assert run(folder, "--model", trunk, "-o", out, "--resume", "--seed", 5) == 1
    write_fasta(folder / "a.fasta", ROWS[3:])
    assert run(folder, "--model", trunk, "-o", out, "--resume") == 1
    assert run(folder, "--model", trunk, "-o", out, "--force") == 0
    assert (out / "a/scores.json").stat().st_mtime_ns != kept.st_mtime_ns


def test_folders_of_other_things_are_never_replaced(trunk: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    (tmp_path / "mine").mkdir()
    assert run(path, "--model", trunk, "-o", tmp_path / "mine") == 0  # empty: nothing to lose
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("years")
    for flag in ("--force", "--resume"):
        assert run(path, "--model", trunk, "-o", tmp_path / "other", flag) == 1
    assert (tmp_path / "other/thesis.txt").read_text() == "years"
    assert run(path, "--model", trunk, "-o", path) == 1
    assert run(path, "--model", trunk, "-o", ".") == 2
    assert run(path, "--model", trunk, "-o", tmp_path / "no/such/out") == 1
    notes = [tmp_path / "mine/notes.txt", tmp_path / "new.partial/notes.txt"]
    notes[1].parent.mkdir()
    for note in notes:  # beside our own files, and where those are made
        note.write_text("years")
    assert run(path, "--model", trunk, "-o", tmp_path / "mine", "--force") == 1
    assert run(path, "--model", trunk, "-o", tmp_path / "new") == 1
    assert [note.read_text() for note in notes] == ["years", "years"]
    assert not (tmp_path / "new").exists()


def test_an_output_that_cannot_be_written_is_told_before_the_prediction(
    trunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A read-only file system looks writable to root until something is made on it."""

    def refuse(path: Path, *arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(alignment_runner, "predict", lambda *_, **__: pytest.fail("predicted in vain"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert run(write_fasta(tmp_path / "x.fasta"), "--model", trunk, "-o", tmp_path / "out") == 1
    assert "out: cannot be written (Read-only file system)" in capsys.readouterr().err


def test_a_signal_leaves_nothing_half_written(trunk: Path, folder: Path, tmp_path: Path) -> None:
    class Impatient(NoProgress):
        def advance(self, steps: int = 1, **status: float | str) -> None:
            if (tmp_path / "out/a").is_dir():
                os.kill(os.getpid(), signal.SIGTERM)

    write_fasta(folder / "b.fasta", ROWS[2:])
    loaded = load_evoformer_model(trunk, CPU)
    sources, several = find_alignments(folder)
    settings = RunSettings(inputs=loaded.inputs)
    with pytest.raises(Interrupted) as caught:
        run_alignments(loaded, sources, tmp_path / "out", settings, several=several, progress=Impatient())
    assert caught.value.exit_code == 143
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
    assert run(folder, "--model", trunk, "-o", tmp_path / "out", "--resume") == 0
    assert run(folder, "--model", trunk, "-o", tmp_path / "calm") == 0
    for name in ("a", "b", "c"):
        for file in FILES:
            expected = (tmp_path / "calm" / name / file).read_bytes()
            assert (tmp_path / "out" / name / file).read_bytes() == expected


def test_attention_goes_on_after_a_signal(trunk: Path, folder: Path, tmp_path: Path) -> None:
    class Impatient(NoProgress):
        def advance(self, steps: int = 1, **status: float | str) -> None:
            if (tmp_path / "out/a").is_dir():
                os.kill(os.getpid(), signal.SIGINT)

    write_fasta(folder / "b.fasta", ROWS[2:])
    loaded = load_evoformer_model(trunk, CPU)
    sources, several = find_alignments(folder)
    attention = AttentionOutput(path=tmp_path / "att.h5", options=AlignmentAttentionOptions())
    settings = RunSettings(inputs=loaded.inputs)
    with pytest.raises(Interrupted, match=r"1 of 3 alignments finished: repeat .* --resume") as caught:
        run_alignments(
            loaded,
            sources,
            tmp_path / "out",
            settings,
            several=several,
            attention=attention,
            progress=Impatient(),
        )
    assert caught.value.exit_code == 130
    assert not attention.path.exists()
    options = ("--model", trunk, "--attention", attention.path)
    assert run(folder, *options, "-o", tmp_path / "out", "--resume") == 0
    assert not (tmp_path / "att.h5.partial").exists()
    made = attention.path.stat().st_mtime_ns
    assert run(folder, *options, "-o", tmp_path / "out", "--resume") == 0
    assert attention.path.stat().st_mtime_ns == made
    resumed = attention.path.read_bytes()
    assert run(folder, *options, "-o", tmp_path / "calm") == 0
    assert attention.path.read_bytes() == resumed


def test_running_out_of_memory_stops_one_alignment(
    trunk: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(_model: object, inputs: object, **arguments: object) -> object:
        if arguments["description"] == "a":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return evoformer_prediction.predict(_model, inputs, **arguments)

    write_fasta(folder / "b.fasta", ROWS[2:])
    monkeypatch.setattr("bioattn.inference.alignment_runner.predict", predict)
    assert run(folder, "--model", trunk, "-o", tmp_path / "out") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b", "c"]


def test_when_all_fail_no_empty_folder_stays(trunk: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.a3m", "b.a3m"):
        (tmp_path / "in" / name).write_text(">q\nACGT1\n")
    options = ("--model", trunk, "--attention", tmp_path / "att.h5")
    assert run(tmp_path / "in", *options, "-o", tmp_path / "out") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.run.json"]


def test_parameter_files_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    name = "alphafold/alphafold_iteration/evoformer/~_relative_encoding/position_activations//weights"
    np.savez(tmp_path / "multimer.npz", **{name: np.zeros((73, 128), np.float32)})
    np.savez(tmp_path / "pickled.npz", **{"a//b": np.array([{}], dtype=object)})
    (tmp_path / "text.npz").write_text("no")
    for file, said in (
        ("multimer", "AlphaFold-Multimer"),
        ("pickled", "never unpickled"),
        ("text", "no par"),
    ):
        options = ("--parameters", tmp_path / f"{file}.npz", "-o", tmp_path / "out")
        assert run(path, *options) == 1
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_attention_is_that_of_the_last_pass(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    site = "evoformer.01.msa_row"
    config = write_config(tmp_path, '[attention]\nheads = [1]\nreduce = "none"\n')
    options = ("--attention", tmp_path / "att.h5", "--sites", site, "--config", config)
    assert run(path, "--model", model, "-o", tmp_path / "out", *options) == 0
    assert validate_file(tmp_path / "att.h5") == []
    heard: list[torch.Tensor] = []

    class Sink:
        def receive(self, _site: object, weights: torch.Tensor, _norms: object, _tile: object = None) -> None:
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


BAD = {
    "empty": ("", "empty"),
    "no_rows": (">q\n", "sequence|row|empty"),
    "unequal": (">q\nACDEF\n>r\nACDE\n", "columns|letters"),
    "digits": (">q\nACD1F\n>r\nACDEF\n", "1"),
    "stop": (">q\nACD*F\n>r\nACDEF\n", r"\*"),
    "dna": (">q\nACGTACGTACGT\n>r\nACGTACGAACGT\n", "DNA"),
    "all_gaps": (">q\n------\n>r\nACDEFG\n", "no residue"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_alignments_end_in_one_sentence(
    name: str, trunk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, said = BAD[name]
    path = tmp_path / f"{name}.a3m"
    path.write_text(content)
    assert run(path, "--model", trunk, "-o", tmp_path / "out") == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert error[0].startswith(f"bioattn: error: {path}")
    assert re.search(said, error[0])
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]


def test_one_row_and_very_many(trunk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write_fasta(tmp_path / "one.fasta", ROWS[:1]), "--model", trunk, "-o", tmp_path / "one") == 0
    assert "one distinct row only" in capsys.readouterr().err
    scores = json.loads((tmp_path / "one/scores.json").read_text())
    assert (scores["msa_clusters"], scores["distinct_rows"]) == (1, 1)
    random = np.random.default_rng(0)
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    many = letters[random.integers(20, size=(20_000, 12))]
    with (tmp_path / "many.aln").open("wb") as file:
        file.writelines(row.tobytes() + b"\n" for row in many)
    assert run(tmp_path / "many.aln", "--model", trunk, "-o", tmp_path / "many") == 0
    scores = json.loads((tmp_path / "many/scores.json").read_text())
    assert (scores["rows"], scores["msa_clusters"], scores["extra_msa_rows"]) == (20_000, 4, 5)


def test_what_memory_cannot_hold_is_refused_with_an_estimate(
    trunk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: 1_000_000_000)
    path = tmp_path / "wide.aln"
    path.write_text("ACDEFGHIKL" * 500 + "\n" + "ACDEFGHIKV" * 500 + "\n")
    assert run(path, "--model", trunk, "-o", tmp_path / "out") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "5,000 columns" in error
    assert re.search(r"need about \d\S* GB of memory .*, 1 GB are free", error)
    assert not (tmp_path / "out").exists()


def test_tiles_get_smaller_where_memory_is_short(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    many = letters[np.random.default_rng(0).integers(20, size=(2005, 12))]
    path = write_fasta(tmp_path / "x.fasta", [row.tobytes().decode() for row in many])
    config = load_evoformer_model(model, CPU).config
    sizes = AlignmentSizes(5, 2000, 12)
    whole, small = (evoformer_memory.estimate_memory(config, sizes, chunk=chunk) for chunk in (None, 1))
    assert small < whole
    inputs = write_config(tmp_path, "[inputs]\nmax_extra_msa = 2000\n")
    command = ["run", "evoformer", str(path), "--model", str(model), "--config", str(inputs), "-o"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    assert "of memory beside the model" in capsys.readouterr().err
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: small)
    assert main([*command, str(tmp_path / "small")]) == 0
    assert re.search(r"layers take [14] rows? at a time", capsys.readouterr().err)
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: small - 1)
    assert main([*command, str(tmp_path / "none")]) == 1
    results = [arrays(tmp_path / name / "distogram.h5")["probability"] for name in ("whole", "small")]
    np.testing.assert_allclose(*results, atol=1e-5)


def test_bf16_is_near_fp32_and_not_the_same(model: Path, tmp_path: Path) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    results = []
    for precision in ("fp32", "bf16"):
        out = tmp_path / precision
        assert run(path, "--model", model, "-o", out, "--precision", precision) == 0
        results.append(arrays(out / "distogram.h5")["expected_distance"])
    difference = np.abs(results[0] - results[1])
    assert 0 < difference.mean() < 1
    assert json.loads((tmp_path / "bf16/scores.json").read_text())["settings"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "--parameters FILE"),
        (("--model", "M", "--parameters", "M"), 2, "name one model; 2 are given"),
        (("--model", "M", "--chunk", "few"), 2, "--chunk few"),
        (("--model", "M", "--recycles", 2), 2, "no recycling"),
        (("--model", "M", "--sites", "*"), 2, "--attention FILE"),
        (("--model", "M", "--attention", "A", "--sites", "evoformer.*.surprise"), 2, "matches none"),
        (("--model", "M", "--representations", "structure"), 2, "no structure module"),
        (("--model", "X"), 1, "no such file"),
    ],
)
def test_options_that_cannot_be_met(
    options: tuple[object, ...],
    code: int,
    said: str,
    trunk: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    names = {"M": trunk, "A": tmp_path / "att.h5", "X": tmp_path / "absent.npz"}
    arguments = [names.get(str(option), option) for option in options]
    assert run(path, *arguments, "-o", tmp_path / "out") == code
    assert said in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.fasta"]


@pytest.mark.parametrize(
    ("text", "attention", "said"),
    [
        ('[attention]\ndtype = "float16"\n', False, "--attention FILE"),
        (
            "[attention]\nheads = [9]\n",
            True,
            "but 9 was asked for; choose other heads, or sites that have it",
        ),
        ("[attention]\nheads = []\n", True, "run.toml [attention]: heads []: give at least one head"),
        ('[attention]\nreduce = "some"\n', True, "choose from mean-rows"),
        ("[attention]\ntop_k = 3\n", True, 'top_k is for reduce = "top-k"'),
        ("[attention]\nhead = [1]\n", True, "did you mean heads?"),
        ("[inputs]\nmax_extra_msa = 0\n", False, "run.toml [inputs]: max_extra_msa is 0"),
        ("[parameters]\nstructure_layers = 3\n", False, "knows its number"),
        ("[parameters]\nstructure_layers = 0\n", False, "run.toml [parameters]: structure_layers is 0"),
        ("recycles = 3\n", False, "known are the tables [inputs]"),
    ],
)
def test_settings_that_cannot_be_met(
    text: str, attention: bool, said: str, trunk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = write_fasta(tmp_path / "x.fasta"), write_config(tmp_path, text)
    options = ("--attention", tmp_path / "att.h5") if attention else ()
    assert run(path, "--model", trunk, "--config", config, *options, "-o", tmp_path / "out") == 2
    assert said in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.toml", "x.fasta"]


def test_standard_input(trunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with write_fasta(tmp_path / "x.fasta").open("rb") as file:
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": file, "isatty": lambda _self: False})())
        attention = ("--attention", tmp_path / "att.h5")
        assert run("-", "--model", trunk, "-o", tmp_path / "out", *attention) == 0
    assert run(tmp_path / "x.fasta", "--model", trunk, "-o", tmp_path / "file") == 0
    piped, named = (arrays(tmp_path / name / "distogram.h5") for name in ("out", "file"))
    # Weights that are heard are computed in another order than those that are not.
    np.testing.assert_allclose(piped["probability"], named["probability"], atol=1e-5)
