"""What `run evoformer` reads and warns of: every format of alignments, standard input, bad and extreme ones."""

import gzip
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment, split_insertions
from bioattn.inference.alignment_inputs import find_alignments
from bioattn.models.evoformer.prediction import target_numbers
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


A3M = ">q\nACDE\n"


def test_a_folder_stands_for_its_alignments_in_order(tmp_path):
    for name in ("b.sto", "a.a3m", "c.fasta.xz", "README.md", ".hidden.a3m", "d.tsv", "e.A3M"):
        (tmp_path / name).write_text(A3M)
    (tmp_path / "sub.a3m").mkdir()
    sources, several = find_alignments(tmp_path)
    assert several
    assert [source.name for source in sources] == ["a", "b", "c", "e"]
    assert sources[1].path == tmp_path / "b.sto"


def test_equal_stems_keep_their_suffixes(tmp_path):
    for name in ("a.sto", "a.a3m.gz", "b.sto"):
        (tmp_path / name).write_text(A3M)
    assert [source.name for source in find_alignments(tmp_path)[0]] == ["a.a3m.gz", "a.sto", "b"]


def test_a_list_names_files_from_its_own_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("one.a3m", "deep/two.sto"):
        (tmp_path / name).write_text(A3M)
    (tmp_path / "files.txt").write_text(f"deep/two.sto\n\n{tmp_path / 'one.a3m'}\n")
    sources, several = find_alignments(tmp_path / "files.txt")
    assert several
    assert [source.name for source in sources] == ["two", "one"]


def test_a_list_may_have_comments_and_name_what_is_missing(tmp_path):
    (tmp_path / "two.a3m").write_text(A3M)
    (tmp_path / "files.txt").write_text("# mine\nmissing.a3m\ntwo.a3m\n  # no more\ntwo.a3m\n")
    sources, several = find_alignments(tmp_path / "files.txt")
    assert several
    assert [source.name for source in sources] == ["missing", "two"]
    assert not sources[0].path.exists()
    comments = "# " + "x" * 200 + "\n"
    (tmp_path / "files.txt").write_text(comments * 70 + "two.a3m\n" + "é" * 40_000 + "\n")
    assert len(find_alignments(tmp_path / "files.txt")[0]) == 2


def test_a_bare_alignment_is_no_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.aln").write_text("ACDEFG\nACDEYG\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 2000)
    assert find_alignments(Path("x.aln"))[1] is False
    assert find_alignments(Path("binary"))[1] is False


def test_refusals(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(BioattnError, match="no file in this folder"):
        find_alignments(tmp_path)
    (tmp_path / "other").mkdir()
    for name in ("a.sto", "other/a.sto"):
        (tmp_path / name).write_text(A3M)
    (tmp_path / "list").write_text("a.sto\nother/a.sto\n")
    with pytest.raises(BioattnError, match=r"a\.sto and a\.sto would both be written to a\.sto"):
        find_alignments(tmp_path / "list")
    with pytest.raises(BioattnError, match="no such file"):
        find_alignments(tmp_path / "absent.a3m")


def alignment_of(name, row):
    match, inserted = split_insertions(row.encode())
    return Alignment(
        names=[name], descriptions=[""], residues=np.frombuffer(match, np.uint8)[None], insertions=[inserted]
    )


def test_a_range_in_the_name_counts_when_it_fits():
    assert target_numbers(alignment_of("X_ECOLI/24-28", "MKc-GA")) == [24, 25, None, 27, 28]
    assert target_numbers(alignment_of("X_ECOLI/24-27", "MKc-GA")) == [1, 2, None, 4, 5]
    assert target_numbers(alignment_of("X/28-24", "MK-GA")) == [1, 2, None, 3, 4]
