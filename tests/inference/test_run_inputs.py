"""What `run evoformer` reads and warns of: every format of alignments, standard input, bad and extreme ones."""

import gzip
import json
import lzma
import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.inference.evoformer_runs import ROWS, arrays, run, write_fasta


def stockholm(rows):
    lines = "".join(f"row{number} {row}\n" for number, row in enumerate(rows))
    return f"# STOCKHOLM 1.0\n{lines}//\n"


def clustal(rows):
    blocks = []
    for start in range(0, len(rows[0]), 20):
        blocks.append("".join(f"row{n}     {row[start : start + 20]}\n" for n, row in enumerate(rows)))
    return "CLUSTAL W (1.83) multiple sequence alignment\n\n" + "\n".join(blocks)


def phylip(rows):
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


def test_every_format_gives_the_same_contacts(trunk, tmp_path):
    assert run(write_fasta(tmp_path / "x.fasta"), "--model", trunk, "-o", tmp_path / "out") == 0
    expected = (tmp_path / "out/contacts.rr").read_bytes()
    for name, render in FORMATS.items():
        (tmp_path / name).write_bytes(render(ROWS))
        assert run(tmp_path / name, "--model", trunk, "-o", tmp_path / f"out-{name}") == 0, name
        assert (tmp_path / f"out-{name}/contacts.rr").read_bytes() == expected, name


BAD = {
    "unequal": (">q\nACDEF\n>r\nACDE\n", "columns|letters"),
    "dna": (">q\nACGTACGTACGT\n>r\nACGTACGAACGT\n", "DNA"),
    "all_gaps": (">q\n------\n>r\nACDEFG\n", "no residue"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_alignments_end_in_one_sentence(name, trunk, tmp_path, capsys):
    content, said = BAD[name]
    path = tmp_path / f"{name}.a3m"
    path.write_text(content)
    assert run(path, "--model", trunk, "-o", tmp_path / "out") == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert error[0].startswith(f"bioattn: error: {path}")
    assert re.search(said, error[0])
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name]


def test_one_row_and_very_many(trunk, tmp_path, capsys):
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


def test_standard_input(trunk, tmp_path, monkeypatch):
    with write_fasta(tmp_path / "x.fasta").open("rb") as file:
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": file, "isatty": lambda _self: False})())
        attention = ("--attention", tmp_path / "att.h5")
        assert run("-", "--model", trunk, "-o", tmp_path / "out", *attention) == 0
    assert run(tmp_path / "x.fasta", "--model", trunk, "-o", tmp_path / "file") == 0
    piped, named = (arrays(tmp_path / name / "distogram.h5") for name in ("out", "file"))
    # Weights that are heard are computed in another order than those that are not.
    np.testing.assert_allclose(piped["probability"], named["probability"], atol=1e-5)


def run_one_pass(*arguments):
    return run(*arguments, "--recycles", 0)


def test_what_the_pdb_format_cannot_hold_is_a_warning(model, tmp_path, capsys):
    path = write_fasta(tmp_path / "x.fasta")
    path.write_text(path.read_text().replace(">row0", ">row0/10001-10028"))
    assert run_one_pass(path, "--model", model, "-o", tmp_path / "out") == 0
    assert (tmp_path / "out/structure.cif").is_file()
    assert not (tmp_path / "out/structure.pdb").exists()
    said = capsys.readouterr().err
    assert "no structure.pdb was written: " in said
    assert "no room for its number" in said


LETTERS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)


def aligned(path, rows):
    return write_fasta(path, [row.tobytes().decode() for row in rows])


@pytest.mark.parametrize("number", [60, 3000])
def test_alignments_without_signal_or_depth_are_told(number, model, tmp_path, capsys):
    random = np.random.default_rng(0)
    strangers = LETTERS[random.integers(20, size=(number, 30))]
    ancestor = LETTERS[random.integers(20, size=30)]
    family = np.where(random.random((number, 30)) < 0.5, ancestor, strangers)
    twins = np.tile(ancestor, (number, 1))
    twins[np.arange(number), np.arange(number) % 30] = LETTERS[np.arange(number) // 30 % 20]
    said = {}
    for name, rows in (("strangers", strangers), ("family", family), ("twins", twins)):
        assert (
            run_one_pass(aligned(tmp_path / f"{name}.fasta", rows), "--model", model, "-o", tmp_path / name)
            == 0
        )
        said[name] = capsys.readouterr().err
    assert "strangers.fasta: the rows carry no common signal" in said["strangers"]
    assert ("of a sample of 2,048 rows" in said["strangers"]) == (number > 2048)
    assert said["family"] == ""
    assert "twins.fasta: only 1.0 effective sequences" in said["twins"]
    for name, told in said.items():  # and whoever reads the result later
        kept = json.loads((tmp_path / name / "scores.json").read_text())["warnings"]
        assert [f"warning: {tmp_path}/{name}.fasta: {each}" for each in kept] == told.splitlines()
