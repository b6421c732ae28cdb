"""Which alignments a folder or a list stands for, and residue numbers of the columns of a target."""

from pathlib import Path

import numpy as np
import pytest

from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment, split_insertions
from bioattn.inference.alignment_inputs import find_alignments
from bioattn.models.evoformer.prediction import target_numbers

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
