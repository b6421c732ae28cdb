"""`bioattn prepare msa` through the front door, files compared whole."""

import gzip
import hashlib
import io
import json
import lzma
import sys

import numpy as np
import pytest

from bioattn.formats import alignment_file
from bioattn.formats.alignment_file import read_alignment
from bioattn_cli.main import main

SMALL = """\
# STOCKHOLM 1.0
#=GF ID Small
#=GS c/3-9 DE the third
a/1-6        MK-VLaA
b/2-5        MR-VL..
c/3-9        MRWIL.A
d/1-6        MR-VL..
#=GC SS_cons HH-EE.C
//
"""
A3M = """\
>b/2-5
MRVL
>a/1-6
MKVLaa
>c/3-9 the third
MRwILa
"""


def run(*arguments):
    return main(["prepare", "msa", *map(str, arguments)])


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.sto"
    path.write_text(SMALL)
    return path


def test_from_stockholm_to_a3m_by_eye(small, tmp_path, capsys):
    output, stats = tmp_path / "x.a3m", tmp_path / "x.json"
    assert run(small, "-o", output, "--query", "b", "--stats", stats) == 0
    assert output.read_text() == A3M
    told = capsys.readouterr()
    assert told.out == ""
    assert "query columns: 3 columns made insertions, 4 stay" in told.err
    assert "duplicates: 1 row left out, 3 stay" in told.err
    assert "warning: " in told.err
    assert "only 3.0 effective sequences" in told.err
    figures = json.loads(stats.read_text())
    assert figures["format"] == "bioattn-msa-statistics"
    assert (figures["query"], figures["depth"], figures["columns"]) == ("b/2-5", 3, 4)
    assert figures["neff"] == 3
    record = json.loads((tmp_path / "bioattn-records/x.a3m.json").read_text())
    assert main(["validate", str(output), str(stats)]) == 0
    stats.write_text(json.dumps({"format": figures["format"], "depth": 3}))
    capsys.readouterr()
    assert main(["validate", str(stats)]) == 1
    assert "statistics of an alignment without query, columns, neff" in capsys.readouterr().out
    assert record["outputs"]["x.a3m"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert record["inputs"]["alignment"]["file"] == "small.sto"
    written = {"bioattn-records", "x.a3m", "x.json"}
    assert {path.name for path in tmp_path.iterdir()} == {"small.sto", *written}


def test_packed_input_standard_input_and_packed_output(small, tmp_path, monkeypatch):
    for name, data in (("g", gzip.compress(small.read_bytes())), ("x", lzma.compress(small.read_bytes()))):
        packed = tmp_path / name
        packed.write_bytes(data)
        assert run(packed, "-o", tmp_path / f"{name}.a3m", "--query", "b/2-5", "-q") == 0
        assert (tmp_path / f"{name}.a3m").read_text() == A3M
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(small.read_bytes())))
    assert run("-", "-o", tmp_path / "in.a3m.gz", "--query", "b", "-q") == 0
    assert gzip.decompress((tmp_path / "in.a3m.gz").read_bytes()).decode() == A3M
    record = json.loads((tmp_path / "bioattn-records/in.a3m.gz.json").read_text())
    assert record["inputs"]["alignment"] == {
        "file": "stdin",
        "sha256": hashlib.sha256(small.read_bytes()).hexdigest(),
    }


def test_found_by_search(tmp_path, capsys):
    pytest.importorskip("pyhmmer", reason="pyhmmer is not installed (the extra msa)")
    random = np.random.default_rng(1)
    letters = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)
    query = random.choice(letters, 60)
    kin = [np.where(random.random(60) < 0.3, random.choice(letters, 60), query) for _ in range(5)]
    rows = [*random.choice(letters, (40, 90)), *kin]
    database, source = tmp_path / "db.fasta.gz", tmp_path / "q.fasta"
    text = "".join(f">s{i}\n{row.tobytes().decode()}\n" for i, row in enumerate(rows))
    database.write_bytes(gzip.compress(text.encode()))
    source.write_text(f">target my protein\n{query.tobytes().decode()}\n")
    options = ("--search", database, "--iterations", 2, "--stats", tmp_path / "x.json")
    assert run(source, "-o", tmp_path / "x.a3m", *options) == 0
    assert f"found in {database}, with the query: 6 rows of 60 columns" in capsys.readouterr().err
    alignment = read_alignment(tmp_path / "x.a3m")
    assert alignment.row(0) == query.tobytes().decode()
    assert {name.split("/")[0] for name in alignment.names} == {"target", *(f"s{i}" for i in range(40, 45))}
    searches = json.loads((tmp_path / "x.json").read_text())["search"]
    assert searches[0] == {"database": "db.fasta.gz", "sequences": 45, "domains": 5, "new_sequences": 5}
    assert json.loads((tmp_path / "bioattn-records/x.a3m.json").read_text())["inputs"].keys() == {
        "query",
        "database 1",
    }
    # Another database: one sequence that the first has too, by another name, and one of its own.
    other, own = (
        tmp_path / "other.fasta",
        np.where(random.random(60) < 0.3, random.choice(letters, 60), query),
    )
    other.write_text(f">again\n{kin[2].tobytes().decode()}\n>own\n{own.tobytes().decode()}\n")
    assert run(source, "-o", tmp_path / "y.a3m", *options, "--search", other) == 0
    said = capsys.readouterr().err
    assert f"found in {database} and {other}, with the query: 8 rows of 60 columns" in said
    assert "search db.fasta.gz 1/2: 5 domains among 45 sequences, 5 sequences new" in said
    joined = read_alignment(tmp_path / "y.a3m")
    assert [name.split("/")[0] for name in joined.names[-2:]] == [alignment.names[-1].split("/")[0], "own"]
    searches = json.loads((tmp_path / "x.json").read_text())["search"]
    assert [each["database"] for each in searches] == ["db.fasta.gz"] * 2 + ["other.fasta"] * 2


@pytest.mark.parametrize(
    ("text", "options", "code", "sentence"),
    [
        ("", (), 1, "is empty"),
        (">a\nACGTACGTACGT\n>b\nACGTACGTACGA\n", (), 1, "an alignment of DNA or RNA; translate it"),
        (">a\nMKVL\n", ("--query", "z"), 1, "in.fasta holds no such row; it holds 'a'"),
        (">a\n----\n>b\nMKVL\n", (), 1, "the query, a, has no residue in the columns that are left"),
        (">a\nMKVL\n", ("--max-identity", "90"), 2, "--max-identity is a fraction from 0 to 1, not 90"),
        (">a\nMKVL\n", ("--iterations", "3"), 2, "--iterations is for --search"),
        (">a\nMKVL\n", ("--stats", "-"), 2, "--stats -: this cannot go to standard output"),
    ],
)
def test_bad_input_in_one_sentence_and_nothing_written(tmp_path, capsys, text, options, code, sentence):
    source = tmp_path / "in.fasta"
    source.write_text(text)
    assert run(source, "-o", tmp_path / "x.a3m", *options) == code
    told = capsys.readouterr()
    assert sentence in told.err
    errors = [line for line in told.err.splitlines() if line.startswith("bioattn: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.fasta"]


def test_outputs_that_cannot_be(small, tmp_path, capsys):
    assert run(small, "-o", tmp_path / "x.sto") == 2
    assert "the result is A3M; give it a name that ends in .a3m or .a3m.gz" in capsys.readouterr().err
    assert run(small, "-o", tmp_path / "x.a3m", "--stats", tmp_path / "x.a3m") == 2
    assert "--output and --stats name the same file" in capsys.readouterr().err
    own = tmp_path / "own.a3m"
    own.write_text(A3M)
    assert run(own, "-o", own) == 2
    assert own.read_text() == A3M


def test_too_large_for_memory_is_said_before_it_is_read(tmp_path, capsys, monkeypatch):
    source = tmp_path / "large.a3m"
    source.write_bytes(b">a\n" + b"M" * 100_000 + b"\n")
    monkeypatch.setattr(alignment_file, "free_memory", lambda: 700_000)
    assert run(source, "-o", tmp_path / "x.a3m") == 1
    assert "about 100 kB of text needs about 800 kB of memory, 700 kB are free" in capsys.readouterr().err
    packed = tmp_path / "large.a3m.gz"
    packed.write_bytes(gzip.compress(np.random.default_rng(0).bytes(30_000)))
    assert run(packed, "-o", tmp_path / "x.a3m") == 1
    assert "700 kB are free" in capsys.readouterr().err
    monkeypatch.setattr(alignment_file, "free_memory", lambda: None)
    assert run(source, "-o", tmp_path / "x.a3m", "-q") == 0
