"""The alignment in memory: rows, columns and insertions chosen and counted, against strings a reader can check."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.formats.a3m import parse_a3m
from bioattn.formats.alignment import (
    Alignment,
    Annotations,
    insert_letters,
    looks_like_nucleotides,
    split_insertions,
)


def a3m(*rows: str) -> Alignment:
    return parse_a3m("test.a3m", "".join(f">n{i} d{i}\n{row}\n" for i, row in enumerate(rows)).encode())


def rows(alignment: Alignment) -> list[str]:
    return [alignment.row_with_insertions(index) for index in range(alignment.num_rows)]


def pairs(alignment: Alignment, first: int, second: int) -> list[tuple[str, str]]:
    """Letters of two rows that stand under each other."""
    both = zip(alignment.row(first), alignment.row(second), strict=True)
    return [(a, b) for a, b in both if a != "-" and b != "-"]


@st.composite
def a3m_rows(draw: st.DrawFn) -> list[str]:
    """Rows of A3M with one number of match columns."""
    width = draw(st.integers(1, 6))
    inserts = st.text("acdw", max_size=3)
    row = st.tuples(
        *(st.tuples(inserts, st.sampled_from("ACW-")).map("".join) for _ in range(width)), inserts
    ).map("".join)
    return draw(st.lists(row, min_size=1, max_size=5))


def test_fields_of_a_small_alignment() -> None:
    alignment = a3m("MKV-L", "aaM-VcLLw", "-----")
    assert alignment.names == ["n0", "n1", "n2"]
    assert alignment.descriptions == ["d0", "d1", "d2"]
    assert [alignment.row(index) for index in range(3)] == ["MKV-L", "M-VLL", "-----"]
    assert alignment.insertions == [{}, {0: "aa", 3: "c", 5: "w"}, {}]
    assert alignment.sequence(1) == "AAMVCLLW"
    assert alignment.sequence(2) == ""
    assert alignment.residues.dtype == np.uint8
    assert (alignment.num_rows, alignment.num_columns) == (3, 5)


def test_deletions_count_letters_before_each_column_and_none_after_the_last() -> None:
    deletions = a3m("MKV", "aaMKcVw").deletions()
    assert deletions.dtype == np.int32
    assert deletions.tolist() == [[0, 0, 0], [2, 0, 1]]


@given(a3m_rows())
def test_insertions_split_and_join(lines: list[str]) -> None:
    for line in lines:
        match, inserted = split_insertions(line.encode())
        assert insert_letters(match.decode(), inserted) == line
        assert match.decode() == "".join(letter for letter in line if not letter.islower())


def test_select_rows_takes_what_belongs_to_them() -> None:
    alignment = a3m("MK", "cM-", "-Kw")
    notes = Annotations(
        alignment=[("ID", "x")],
        rows={0: [("AC", "A")], 2: [("AC", "C")]},
        residues={2: {"SS": "HE"}},
        columns={"RF": "xx"},
    )
    full = Alignment(
        names=alignment.names,
        descriptions=alignment.descriptions,
        residues=alignment.residues,
        insertions=alignment.insertions,
        annotations=notes,
    )
    chosen = full.select_rows([2, 0])
    assert chosen.names == ["n2", "n0"]
    assert rows(chosen) == ["-Kw", "MK"]
    assert chosen.annotations.rows == {0: [("AC", "C")], 1: [("AC", "A")]}
    assert chosen.annotations.residues == {0: {"SS": "HE"}}
    assert chosen.annotations.columns == {"RF": "xx"}
    assert rows(full.select_rows(np.array([False, True, False]))) == ["cM-"]
    assert rows(full.select_rows([-1])) == ["-Kw"]
    column = full.keep_as_match([1])
    assert column.annotations.columns == {"RF": "x"}
    assert column.annotations.residues == {2: {"SS": "E"}}


def test_columns_must_ascend() -> None:
    alignment = a3m("MKVL")
    with pytest.raises(ValueError, match="ascending"):
        alignment.keep_as_match([2, 1])
    with pytest.raises(ValueError, match="ascending"):
        alignment.keep_as_match([1, 1])
    with pytest.raises(ValueError, match=r"mask has shape \(3,\) but must have shape \(4,\)"):
        alignment.keep_as_match([True, False, True])


def test_keep_as_match_turns_the_rest_into_insertions() -> None:
    alignment = a3m("MKVL", "aMbK-Lc", "--V-")
    kept = alignment.keep_as_match([1, 2])
    assert rows(kept) == ["mKVl", "ambK-lc", "-V"]
    assert kept.insertions == [{0: "m", 2: "l"}, {0: "amb", 2: "lc"}, {}]


@given(a3m_rows(), st.randoms())
def test_keep_as_match_loses_no_residue(lines: list[str], random) -> None:
    alignment = a3m(*lines)
    mask = np.array([random.random() < 0.6 for _ in range(alignment.num_columns)], dtype=bool)
    kept = alignment.keep_as_match(mask)
    for index, line in enumerate(lines):
        assert kept.sequence(index) == alignment.sequence(index)
        column, plain = 0, ""
        for letter in line:
            if letter.islower():
                plain += letter
            else:
                plain += letter if mask[column] else letter.lower().replace("-", "")
                column += 1
        assert kept.row_with_insertions(index) == plain


def test_centre_on_row_keeps_the_whole_query() -> None:
    centred = a3m("M-KVL", "aMEbK-Lc", "dM-eK-Lw").centre_on_row(2)
    # d, e and w become columns of their own, the two columns where row 2 has a gap go.
    assert rows(centred) == ["-M-KvL-", "-aM-ebKL-c", "DMEKLW"]
    assert centred.insertions == [{4: "v"}, {1: "a", 3: "eb", 6: "c"}, {}]


@given(a3m_rows(), st.data())
def test_centring_makes_the_query_the_columns_and_loses_nothing(
    lines: list[str], data: st.DataObject
) -> None:
    alignment = a3m(*lines)
    query = data.draw(st.integers(0, len(lines) - 1))
    centred = alignment.centre_on_row(query)
    assert centred.row(query) == alignment.sequence(query)
    assert centred.insertions[query] == {}
    for index in range(alignment.num_rows):
        assert centred.sequence(index) == alignment.sequence(index)
        # A residue that stood in a match column under a residue of the query stands under it still.
        if index != query:
            assert pairs(centred, query, index) == pairs(alignment, query, index)


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["ACGTACGTAC"], True),
        (["ACGUACGUNN", "----------"], True),
        (["acgtACGT", "acgtACGT"], True),
        (["ACGTACGTA"], False),
        (["MKVLACGTAC"], False),
        (["ACGTACGTAC" * 10 + "RYK"], False),
        (["ACGTACGTAC" * 10 + "R"], True),
        (["----------"], False),
    ],
)
def test_looks_like_nucleotides(lines: list[str], answer: bool) -> None:
    assert looks_like_nucleotides(a3m(*lines)) is answer
