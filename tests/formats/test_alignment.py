"""Alignments in memory; written and read in every layout; garbage."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.alignment import (
    insert_letters,
    looks_like_nucleotides,
    split_insertions,
)
from bioattn.formats.alignment_file import AlignmentFormat, parse_a3m, read_alignment, write_a3m


def a3m(*rows):
    return parse_a3m("test.a3m", "".join(f">n{i} d{i}\n{row}\n" for i, row in enumerate(rows)).encode())


def rows(alignment):
    return [alignment.row_with_insertions(index) for index in range(alignment.num_rows)]


def pairs(alignment, first, second):
    """Letters of two rows that stand under each other."""
    both = zip(alignment.row(first), alignment.row(second), strict=True)
    return [(a, b) for a, b in both if a != "-" and b != "-"]


@st.composite
def a3m_rows(draw):
    """Rows of A3M with one number of match columns."""
    width = draw(st.integers(1, 6))
    inserts = st.text("acdw", max_size=3)
    row = st.tuples(
        *(st.tuples(inserts, st.sampled_from("ACW-")).map("".join) for _ in range(width)), inserts
    ).map("".join)
    return draw(st.lists(row, min_size=1, max_size=5))


def test_fields_of_a_small_alignment():
    alignment = a3m("MKV-L", "aaM-VcLLw", "-----")
    assert alignment.names == ["n0", "n1", "n2"]
    assert alignment.descriptions == ["d0", "d1", "d2"]
    assert [alignment.row(index) for index in range(3)] == ["MKV-L", "M-VLL", "-----"]
    assert alignment.insertions == [{}, {0: "aa", 3: "c", 5: "w"}, {}]
    assert alignment.sequence(1) == "AAMVCLLW"
    assert alignment.sequence(2) == ""
    assert alignment.residues.dtype == np.uint8
    assert (alignment.num_rows, alignment.num_columns) == (3, 5)


def test_deletions_count_letters_before_each_column_and_none_after_the_last():
    deletions = a3m("MKV", "aaMKcVw").deletions()
    assert deletions.dtype == np.int32
    assert deletions.tolist() == [[0, 0, 0], [2, 0, 1]]


@given(a3m_rows())
def test_insertions_split_and_join(lines):
    for line in lines:
        match, inserted = split_insertions(line.encode())
        assert insert_letters(match.decode(), inserted) == line
        assert match.decode() == "".join(letter for letter in line if not letter.islower())


def test_select_rows_takes_what_belongs_to_them():
    alignment = a3m("MK", "cM-", "-Kw")
    chosen = alignment.select_rows([2, 0])
    assert chosen.names == ["n2", "n0"]
    assert rows(chosen) == ["-Kw", "MK"]
    assert rows(alignment.select_rows(np.array([False, True, False]))) == ["cM-"]
    assert rows(alignment.select_rows([-1])) == ["-Kw"]


def test_keep_as_match_turns_the_rest_into_insertions():
    alignment = a3m("MKVL", "aMbK-Lc", "--V-")
    kept = alignment.keep_as_match([1, 2])
    assert rows(kept) == ["mKVl", "ambK-lc", "-V"]
    assert kept.insertions == [{0: "m", 2: "l"}, {0: "amb", 2: "lc"}, {}]


@given(a3m_rows(), st.randoms())
def test_keep_as_match_loses_no_residue(lines, random):
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


def test_centre_on_row_keeps_the_whole_query():
    centred = a3m("M-KVL", "aMEbK-Lc", "dM-eK-Lw").centre_on_row(2)
    # d, e and w become columns of their own, the two columns where row 2 has a gap go.
    assert rows(centred) == ["-M-KvL-", "-aM-ebKL-c", "DMEKLW"]
    assert centred.insertions == [{4: "v"}, {1: "a", 3: "eb", 6: "c"}, {}]


@given(a3m_rows(), st.data())
def test_centring_makes_the_query_the_columns_and_loses_nothing(lines, data):
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
def test_looks_like_nucleotides(lines, answer):
    assert looks_like_nucleotides(a3m(*lines)) is answer


NAMES = st.from_regex(r"[A-Za-z0-9_|/.:=>#-]{1,12}", fullmatch=True)
RESIDUES = st.sampled_from("ACDEFGHIKLMNPQRSTVWYXBZUOJ-")


@st.composite
def alignments(draw):
    """Names, descriptions and rows of A3M."""
    width = draw(st.integers(1, 8))
    word = st.text("acdefghiklmnpqrstvwyxbzuoj", max_size=2)
    text = st.tuples(*(st.tuples(word, RESIDUES).map("".join) for _ in range(width)), word).map("".join)
    note = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), max_size=12).map(str.strip)
    return draw(st.lists(st.tuples(NAMES, note, text), min_size=1, max_size=6))


@given(alignments())
def test_a3m_comes_back_as_written(tmp_path, records):
    text = "".join(f">{name} {note}".rstrip() + f"\n{row}\n" for name, note, row in records)
    alignment = parse_a3m("x.a3m", text.encode())
    path = tmp_path / "y.a3m"
    write_a3m(alignment, path)
    assert path.read_text() == text
    again = read_alignment(path, format=AlignmentFormat.A3M)
    assert (again.names, again.descriptions) == (alignment.names, alignment.descriptions)
    assert again.insertions == alignment.insertions
    assert again.residues.tobytes() == alignment.residues.tobytes()


@st.composite
def layouts(draw):
    """Text of some format in some layout, with the names and rows it stands for."""
    width = draw(st.integers(1, 30))
    row = st.text("ACDEFGHIKLMNPQRSTVWY-", min_size=width, max_size=width)
    texts = draw(st.lists(row, min_size=1, max_size=5))
    names = [f"n{index}_{'x' * draw(st.integers(0, 4))}" for index in range(len(texts))]
    step = draw(st.integers(1, width))
    starts = range(0, width, step)
    kind = draw(st.sampled_from(["stockholm", "clustal", "phylip", "phylip-sequential", "fasta"]))
    pieces = [[text[start : start + step] for start in starts] for text in texts]
    if kind == "fasta":
        text = "".join(
            f">{name}\n" + "\n".join(parts) + "\n" for name, parts in zip(names, pieces, strict=True)
        )
    elif kind == "phylip-sequential":
        bodies = [
            f"{name:10}" + "\n          ".join(parts) + "\n"
            for name, parts in zip(names, pieces, strict=True)
        ]
        text = f" {len(texts)} {width}\n" + "".join(bodies)
    else:
        blocks = [
            [f"{name:10} {parts[number]}" for name, parts in zip(names, pieces, strict=True)]
            for number in range(len(starts))
        ]
        if kind == "phylip":
            blocks[1:] = [[line[11:] for line in block] for block in blocks[1:]]
        head = {"stockholm": "# STOCKHOLM 1.0", "clustal": "CLUSTAL W", "phylip": f"{len(texts)} {width}"}[
            kind
        ]
        text = head + "\n\n" + "\n\n".join("\n".join(block) for block in blocks) + "\n"
        if kind == "stockholm":
            text += "//\n"
    return text, names, texts


@given(layouts())
def test_rows_survive_any_layout(tmp_path, case):
    text, names, texts = case
    (tmp_path / "x").write_text(text)
    try:
        alignment = read_alignment(tmp_path / "x")
    except FormatError as error:
        # Rows of PHYLIP may by chance fit both layouts.
        assume("as interleaved and as sequential" not in str(error))
        raise
    assert alignment.names == names
    assert [alignment.row(index) for index in range(alignment.num_rows)] == texts
    assert not any(alignment.insertions)
