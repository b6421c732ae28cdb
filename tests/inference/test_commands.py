"""`run promoter`, `export attention`, `inspect` and `validate` through the front door; what each family can do."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from bioattn.figures.promoter_picture import read_promoter_picture
from bioattn.interpret.array_exports import read_predictions
from bioattn.models.promoter.config import Conditioning
from bioattn.store.reader import open_attention
from bioattn_cli.main import main
from tests.making import bioattn


def test_run_and_export_are_the_same_thing(make_model, make_promoters, tmp_path):
    model, promoters = make_model(), make_promoters()
    predictions, attention = tmp_path / "predictions.tsv", tmp_path / "attention.h5"
    assert bioattn("run", "promoter", model, promoters, "-o", predictions, "-t", 1) == 0
    alone = pd.read_csv(predictions, sep="\t", index_col="gene_id")
    assert (
        bioattn("run", "promoter", model, promoters, "-o", predictions, "--attention", attention, "-t", 1)
        == 0
    )
    # Fused and explicit attention agree to rounding, not to the bit.
    pd.testing.assert_frame_equal(pd.read_csv(predictions, sep="\t", index_col="gene_id"), alone, atol=1e-5)
    exported = tmp_path / "exported.h5"
    assert (
        bioattn("export", "attention", model, promoters, "-o", exported, "--sites", "promoter.*", "-t", 1)
        == 0
    )
    assert exported.read_bytes() == attention.read_bytes()
    record = json.loads((tmp_path / "bioattn-records/exported.h5.json").read_text())
    assert record["promoters"] == 23
    assert set(record["inputs"]) == {"model", "promoters"}
    assert bioattn("validate", exported) == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "attention.h5",
        "exported.h5",
        "predictions.tsv",
        "promoters.fa",
    ]


def test_some_genes_alone_have_the_maps_of_all(make_model, make_promoters, tmp_path):
    model, promoters = make_model(), make_promoters()
    names = tmp_path / "genes.txt"
    whole, few, spread = (tmp_path / f"{name}.h5" for name in ("whole", "few", "spread"))
    assert bioattn("export", "attention", model, promoters, "-o", whole, "-t", 1) == 0
    with open_attention(whole) as file:
        site = "promoter.cross.1"
        genes, maps = list(file.samples.index), file.weights(site)
    names.write_text(f"{genes[7]}\n{genes[2]}\n")
    chosen = {few: ("--genes", names, "--genes", genes[20]), spread: ("--samples", 4)}
    for output, which in chosen.items():
        assert bioattn("export", "attention", model, promoters, "-o", output, "-t", 1, *which) == 0
    for output, rows in ((few, [2, 7, 20]), (spread, [0, 7, 15, 22])):
        with open_attention(output) as file:
            assert list(file.samples.index) == [genes[row] for row in rows]
            np.testing.assert_allclose(file.weights(site), maps[rows], atol=1e-6)


def test_predictions_go_to_stdout_or_gzip(make_model, make_promoters, tmp_path, capsys):
    model, promoters = make_model(), make_promoters()
    packed = tmp_path / "predictions.tsv.gz"
    arguments = [
        "run",
        "promoter",
        model,
        promoters,
        "--treatment",
        "heat-40",
        "--treatment",
        "unconditional",
    ]
    assert bioattn(*arguments, "-o", packed) == 0
    capsys.readouterr()
    assert bioattn(*arguments, "-o", "-") == 0
    captured = capsys.readouterr()
    assert captured.out == gzip.decompress(packed.read_bytes()).decode()
    assert captured.out.splitlines()[0] == "gene_id\theat-40\tunconditional"
    assert "running on cpu" in captured.err


def test_common_names_stand_beside_ids(make_model, make_promoters, tmp_path):
    model, promoters = make_model(), make_promoters(4)
    plain, named = tmp_path / "plain.tsv", tmp_path / "named.tsv"
    assert bioattn("run", "promoter", model, promoters, "-o", plain, "-t", 1) == 0
    promoters.write_text(re.sub(r"^(>G001.*)$", r"\1 name=HSP12", promoters.read_text(), flags=re.MULTILINE))
    assert bioattn("run", "promoter", model, promoters, "-o", named, "-t", 1) == 0
    table = pd.read_csv(named, sep="\t", index_col="gene_id", keep_default_na=False)
    assert table.pop("gene_name").tolist() == ["", "HSP12", "", ""]
    pd.testing.assert_frame_equal(table, pd.read_csv(plain, sep="\t", index_col="gene_id"))
    pd.testing.assert_frame_equal(read_predictions(named), read_predictions(plain))


def test_position_0_goes_from_the_promoters_to_figures(make_model, make_promoters, tmp_path):
    """As `downstream` of FASTA, attention and attribution; not where promoters differ in it or one lacks it."""
    model = make_model()
    knowing = make_promoters(4, "knowing.fa", downstream=lambda i: 10)
    differing = make_promoters(4, "differing.fa", downstream=lambda i: 10 + i)
    partly = make_promoters(4, "partly.fa", downstream=lambda i: 10 if i else None)
    for promoters, downstream in ((knowing, 10), (differing, None), (partly, None)):
        for number, command in enumerate((("export", "attention"), ("explain", "attribution"))):
            output = tmp_path / f"{promoters.stem}-{number}.h5"
            assert bioattn(*command, model, promoters, "-o", output) == 0
            with h5py.File(output) as file:
                assert file.attrs.get("downstream") == downstream
            assert bioattn("validate", output) == 0
    with open_attention(tmp_path / "knowing-0.h5") as attention:
        length = attention.window_length
        assert attention.downstream == 10
    asked = {"gene": "G001", "sites": ["promoter.cross.0"]}
    with open_attention(tmp_path / "knowing-0.h5") as file:
        assert read_promoter_picture(file, **asked).zero == length - 10
        assert read_promoter_picture(file, **asked, zero=5).zero == 5
    with open_attention(tmp_path / "differing-0.h5") as file:
        assert read_promoter_picture(file, **asked).zero is None


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (
            "run promoter {model} {promoters} -o x.tsv --treatment salt",
            1,
            "the model holds no such treatment",
        ),
        ("export attention {model} {promoters} -o -", 2, "standard output"),
        ("export attention {model} {promoters} -o x.h5 --heads 9", 1, "heads 0 to 2"),
        ("export attention {model} {promoters} -o x.h5 --sites x", 1, "--sites 'x'"),
        ("export attention {film} {promoters} -o x.h5", 1, "has no attention sites"),
        (
            "run promoter {model} {promoters} -o x.tsv --attention {promoters}",
            2,
            "{promoters}, which is an input",
        ),
        ("export attention {model} {promoters} -o {model}/new.h5", 2, "{model}/new.h5: lies in the folder"),
    ],
)
def test_mistakes_are_one_sentence_and_a_code(
    make_model, make_promoters, tmp_path, monkeypatch, capsys, line, code, sentence
):
    monkeypatch.chdir(tmp_path)
    places = {
        "model": make_model(),
        "film": make_model("film", conditioning=Conditioning.FILM),
        "promoters": make_promoters(),
    }
    before = sorted(tmp_path.rglob("*"))
    assert bioattn(*line.format(**places).split()) == code
    errors = capsys.readouterr().err
    assert sentence.format(**places) in errors
    assert "Traceback" not in errors
    assert sum(line.startswith("bioattn: error: ") for line in errors.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_inspect_says_what_each_file_is(make_model, make_promoters, tmp_path, capsys):
    model, promoters = make_model(), make_promoters()
    predictions, attention = tmp_path / "predictions.tsv", tmp_path / "attention.h5"
    bioattn("run", "promoter", model, promoters, "-o", predictions, "--attention", attention)
    packed = tmp_path / "packed.fa.gz"
    packed.write_bytes(gzip.compress(promoters.read_bytes()))
    audit = tmp_path / "audit.tsv"
    audit.write_text("gene_id\tstatus\nA\tkept\nB\tdropped\nC\tkept\n")
    expected: dict[Path, tuple[str, dict[str, object]]] = {
        attention: ("attention", {"genes": 23, "window_length": 120, "task": "regression"}),
        model: ("model", {"attention_sites": ["promoter.cross.0", "promoter.cross.1"]}),
        promoters: ("promoters", {"promoters": 23, "shortest": 110, "longest": 120, "with_location": 19}),
        packed: ("promoters", {"promoters": 23}),
        predictions: ("table", {"rows": 23, "columns": 5}),
        audit: ("audit", {"genes": 3, "genes_per_status": {"dropped": 1, "kept": 2}}),
        tmp_path / "bioattn-records/predictions.tsv.json": ("run-record", {"promoters": 23}),
    }
    for path, (kind, figures) in expected.items():
        capsys.readouterr()
        assert bioattn("inspect", path, "--json") == 0
        content = json.loads(capsys.readouterr().out)
        assert content["kind"] == kind
        assert {name: content[name] for name in figures} == figures
        assert bioattn("inspect", path) == 0
        text = capsys.readouterr()
        assert text.out.startswith(f"{path.name}: ")
        assert text.err == ""
        assert bioattn("validate", path) == 0
        assert capsys.readouterr().out == f"{path}: valid\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.h5", b"", "is empty"),
        ("protein.fa", b">a\nMKV1IW\n", "protein.fa"),
        ("ragged.tsv", b"a\tb\n1\t2\n3\n", "3: the row has 1 cell, the header has 2"),
        ("other.h5", None, "not written by bioattn"),
    ],
)
def test_bad_files_are_invalid_and_named(tmp_path, capsys, name, content, words):
    path = tmp_path / name
    if content is None:
        with h5py.File(path, "w") as file:
            file["x"] = [1, 2]
    else:
        path.write_bytes(content)
    assert bioattn("inspect", path) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert bioattn("validate", path) == 1
    captured = capsys.readouterr()
    assert words.removeprefix(name) in captured.out
    assert captured.out.endswith(f"{path}: invalid\n")
    assert "Traceback" not in captured.out + captured.err


def test_the_record_names_every_output(make_model, make_promoters, tmp_path):
    predictions, attention = tmp_path / "predictions.tsv", tmp_path / "attention.h5"
    record = tmp_path / "bioattn-records/predictions.tsv.json"
    arguments = ("promoter", make_model(), make_promoters(), "-o", predictions)
    stale = tmp_path / "bioattn-records/attention.h5.json"
    stale.parent.mkdir()
    stale.write_text("{}")
    assert bioattn("run", *arguments, "--attention", attention) == 0
    assert not stale.exists()
    outputs = json.loads(record.read_text())["outputs"]
    assert outputs == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (predictions, attention)
    }


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            "explain attribution MODEL PROMOTERS",
            1,
            "models of the family evoformer cannot be explained base by base",
        ),
        (
            "export motifs --model MODEL --promoters PROMOTERS",
            1,
            "models of the family evoformer cannot show their first layer as motifs",
        ),
        ("export attention MODEL PROMOTERS", 1, "as they run: `bioattn run evoformer … --attention"),
    ],
)
def test_a_command_names_the_family_and_what_it_lacks(
    words, code, sentence, trunk, make_promoters, tmp_path, capsys
):
    paths = {"MODEL": str(trunk), "PROMOTERS": str(make_promoters())}
    arguments = [paths.get(word, word) for word in words.split()]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()
