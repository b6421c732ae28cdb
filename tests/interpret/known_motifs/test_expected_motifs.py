"""Tables of expected pairs, and consensus patterns."""

import re
from pathlib import Path

import numpy as np
import pytest

from bioattn.errors import FormatError
from bioattn.interpret.known_motifs.expected_motifs import parse_consensus, read_expected

HEADER = "factor\tjaspar_id\tconsensus\tcondition_group\tdirection\tn_with"


def table(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "expected.tsv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_rows_are_read_as_they_are_meant(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "MSN2/MSN4 (STRE, >=2 sites)\tMA0341.1; MA0342.1\tAGGGG\theat\tup (weaker than wild type)\t458",
        "(negative control)\t\tACCGTA\theat\tnone\t1",
    )
    stre, control = read_expected(path)
    assert (stre.matrices, stre.least_sites, stre.line) == (("MA0341.1", "MA0342.1"), 2, 2)
    assert (stre.direction, stre.remark) == ("up", "weaker than wild type")
    assert (control.matrices, control.least_sites, control.direction) == ((), 1, "none")
    assert (control.consensus, control.condition) == ("ACCGTA", "heat")


def test_cells_that_say_nothing_and_both_directions(tmp_path: Path) -> None:
    (pair,) = read_expected(table(tmp_path, "a\tNA\tACGT\theat\tup/down (either way)\t1"))
    assert (pair.matrices, pair.direction, pair.remark) == ((), "either", "either way")


def test_the_real_table(shared: Path) -> None:
    pairs = read_expected(shared / "data" / "yeast" / "expected_motif_condition.tsv")
    assert len(pairs) == 25
    assert sum(pair.direction == "none" for pair in pairs) == 4
    assert {pair.least_sites for pair in pairs if "STRE" in pair.factor} == {2}
    unreadable = {pair.factor for pair in pairs if parse_consensus(pair.consensus) is None}
    assert unreadable == {"STB3 (RRPE)"}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["a\t\tACGT\theat\tupwards\t1"], ":2: the direction 'upwards' begins with none of 'up', 'down'"),
        (["a\t\t\theat\tup\t1"], ":2: neither jaspar_id nor consensus says what 'a' binds"),
        (["a\t\tACGT\t\tup\t1"], ":2: the condition_group is empty"),
        ([], "holds no expected pairs"),
    ],
)
def test_rows_that_say_nothing_are_named(tmp_path: Path, rows: list[str], sentence: str) -> None:
    with pytest.raises(FormatError, match=re.escape(sentence)):
        read_expected(table(tmp_path, *rows))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'condition_group' is missing"):
        read_expected(table(tmp_path, "a\tACGT\tup", header="factor\tconsensus\tdirection"))


@pytest.mark.parametrize("text", ["CGG(n11)CCG", "CGGn11CCG", "nnCGGNNNNNNNNNNNCCGn"])
def test_spacers_and_ends(text: str) -> None:
    (pattern,) = parse_consensus(text) or []
    assert pattern.shape == (17, 4)
    assert pattern[:3].sum() == pattern[14:].sum() == 3
    assert pattern[3:14].all()


def test_alternatives_of_one_motif_count_once() -> None:
    patterns = parse_consensus("GAAnnTTCnnGAA|TTCnnGAAnnTTC") or []
    assert len(patterns) == 1  # one is the other's reverse complement
    np.testing.assert_array_equal(patterns[0][0], [False, False, True, False])


@pytest.mark.parametrize("text", ["TGAAAAATTT-like", "", "nnn", "ACX"])
def test_what_is_no_pattern(text: str) -> None:
    assert parse_consensus(text) is None
