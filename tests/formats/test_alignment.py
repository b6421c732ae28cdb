"""Alignments in memory; read in every format and layout, written, refused in one sentence; garbage."""

import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.alignment import looks_like_nucleotides
from bioattn.formats.alignment_file import parse_a3m, read_alignment, write_a3m


def a3m(*rows):
    return parse_a3m("test.a3m", "".join(f">n{i} d{i}\n{row}\n" for i, row in enumerate(rows)).encode())


def rows(alignment):
    return [alignment.row_with_insertions(index) for index in range(alignment.num_rows)]


def pairs(alignment, first, second):
    """Letters of two rows that stand under each other."""
    both = zip(alignment.row(first), alignment.row(second), strict=True)
    return [(a, b) for a, b in both if a != "-" and b != "-"]


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


ROWS = alignments().map(lambda records: [row for _, _, row in records])


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


def test_select_rows_takes_what_belongs_to_them():
    alignment = a3m("MK", "cM-", "-Kw")
    chosen = alignment.select_rows([2, 0])
    assert chosen.names == ["n2", "n0"]
    assert rows(chosen) == ["-Kw", "MK"]
    assert rows(alignment.select_rows(np.array([False, True, False]))) == ["cM-"]
    assert rows(alignment.select_rows([-1])) == ["-Kw"]


@given(ROWS, st.randoms())
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


@given(ROWS, st.data())
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


@given(alignments())
def test_a3m_comes_back_as_written(tmp_path, records):
    text = "".join(f">{name} {note}".rstrip() + f"\n{row}\n" for name, note, row in records)
    alignment = parse_a3m("x.a3m", text.encode())
    path = tmp_path / "y.a3m"
    write_a3m(alignment, path)
    assert path.read_text() == text
    again = parse_a3m("y.a3m", path.read_bytes())
    assert (again.names, again.descriptions) == (alignment.names, alignment.descriptions)
    assert again.insertions == alignment.insertions
    assert again.residues.tobytes() == alignment.residues.tobytes()


STOCKHOLM = """# STOCKHOLM 1.0
#=GF ID   Toy
#=GF CC   two
#=GF CC   lines
#=GS a/1-4 AC A00001
#=GS a/1-4 DR PDB; 1ABC A;
#=GS a/1-4 DR PDB; 2ABC A;
#=GS b DE protein b

a/1-4         MK..V
#=GR a/1-4 SS HH..E
b             MKacV
#=GC RF       xx..x

a/1-4         L-
#=GR a/1-4 SS E.
b             LL
#=GC RF       xx
//
"""


def read(folder, text, name="x"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_alignment(path)


DETECTED = {
    # Aligned FASTA: one case only, dots and dashes are gaps.
    ">a one\nMK.-V\n>b\nMKLLV\n": ["MK--V", "MKLLV"],
    ">a\nmk.-v\n>b\nmkllv\n": ["MK--V", "MKLLV"],
    ">a\nMK.\n-V\n\n>b\nM K L\nLV\n": ["MK--V", "MKLLV"],
    # A3M: rows become equally long without their lower case.
    ">a\nMKV\n>b\nMaKVc\n": ["MKV", "MaKVc"],
    "#3\t1\n>a\nMKV\n>b\nMaKVc\n": ["MKV", "MaKVc"],
    ">a\nMaKV\n>b\nMKaV\n": ["MaKV", "MKaV"],
    # A2M: the same with dots.
    ">a\nM.KV.\n>b\nMaKVc\n": ["MKV", "MaKVc"],
    # One capital or another in each row and none alone in its column: residues.
    ">a\nMkV\n>b\nMKv\n>c\nMKV\n": ["MKV", "MKV", "MKV"],
    STOCKHOLM: ["MKVL-", "MKacVLL"],
    "# STOCKHOLM 1.0\na MkV\nb MKv\n//\n": ["MKV", "MKV"],
    "CLUSTAL W (1.83) multiple sequence alignment\n\n\na  MK-V 3\nb  MKLV 4\n   ** *\n\na  L 4\nb  L 5\n": [
        "MK-VL",
        "MKLVL",
    ],
    "MUSCLE (3.8) multiple sequence alignment\n\na MK-\nb mkl\n": ["MK-", "MKL"],
    "MK-VL\nMKLV.\n": ["MK-VL", "MKLV-"],
    " 2 5\na         MK-VL\nb         MKLV?\n": ["MK-VL", "MKLV-"],
    # Interleaved, with and without an empty line between the blocks and names before each.
    "2 6\na         MK-\nb         MKL\n\nVLL\nV-L\n": ["MK-VLL", "MKLV-L"],
    "2 6 I\nlonger_than_ten MK-\nb MKL\nVLL\nV-L\n": ["MK-VLL", "MKLV-L"],
    # Sequential, names of ten characters with a space in one.
    "2 12\nHomo sap  MKLAAA\nVLLCCC\nPan       MKLAA-\nV-LCC-\n": ["MKLAAAVLLCCC", "MKLAA-V-LCC-"],
    "2 6\nHomo sapieMKLAAA\nPan trogloMK-AAA\n": ["MKLAAA", "MK-AAA"],
    # By Biopython.
    "#NEXUS\nbegin data;\ndimensions ntax=2 nchar=4;\nformat datatype=protein gap=- missing=? interleave "
    "matchchar=.;\nmatrix\na MK\nb .-\n\na VL\nb ?.\n;\nend;\n": ["MKVL", "M--L"],
    ">P1;a\nname\nMK-V*\n>P1;b\n\nMKLV*\n": ["MK-V", "MKLV"],
    "PileUp\n\n x MSF: 4 Type: P Check: 0 ..\n\n Name: a Len: 4 Check: 0 Weight: 1.0\n Name: b Len: 4 Check: 0 "
    "Weight: 1.0\n\n//\n\n\na MK.V\nb MKLV\n": ["MK-V", "MKLV"],
    # Stops, and letters that are missing.
    ">a\nMK*V\n>b\nM?LV\n": ["MKXV", "M-LV"],
}


@pytest.mark.parametrize("text", DETECTED)
def test_format_is_found_by_content(tmp_path, text):
    assert rows(read(tmp_path, text)) == DETECTED[text]
    assert rows(read(tmp_path, "\ufeff" + text.replace("\n", "\r\n"))) == DETECTED[text]
    assert rows(read(tmp_path, text.replace("\n", "\r"))) == DETECTED[text]


def test_a_broken_file_named_a3m_is_not_read_as_fasta(tmp_path, caplog):
    text = ">a\nMKVL\n>b\nMKvL\n>c\nMKVl\n>d\nM-kL\n>e\nmK-L\n>f\nMkvL\n"
    assert rows(read(tmp_path, text, "x.fasta"))[5] == "MKVL"
    assert "lower-case letters are read as aligned residues, as in FASTA" in caplog.text
    with pytest.raises(FormatError, match=r"x.a3m:3: row 'b' has 3 match columns .* has 4"):
        read(tmp_path, text, "x.a3m")


def test_points_are_letters_of_the_first_row_where_none_is_written_in_full(tmp_path, caplog):
    for text in (">a\nM-V.\n>b\n..--\n", ">a\nMKVL\n>b\n.K..\n", ">a\nMKVL\n>b\n-K-L\n"):
        assert rows(read(tmp_path, text))[1] == text.split()[-1].replace(".", "-")
        assert not caplog.text
    for text in (
        ">a\nMKVL\n>b\n..-I\n>c\n.R..\n>d\nMKVL\n",
        "MKVL\n..-I\n.R..\nMKVL\n",
        "CLUSTAL W\n\na MKVL\nb ..-I\nc .R..\nd MKVL\n",
    ):
        caplog.clear()
        assert rows(read(tmp_path, text)) == ["MKVL", "MK-I", "MRVL", "MKVL"]
        assert "'.' is read as the letter of the first row" in caplog.text


def test_points_beside_capitals_are_gaps_and_lower_case_is_aligned(tmp_path, caplog):
    """Soft-masked residues with `.` for gaps: as A3M, columns 2 and 3 of these rows would be shifted."""
    assert rows(read(tmp_path, ">a\nMK.Vla\n>b\nM.KVla\n>c\nMR.Vla\n", "x.fa"))[:2] == ["MK-VLA", "M-KVLA"]
    assert "lower-case letters are read as aligned" in caplog.text
    caplog.clear()
    assert rows(read(tmp_path, ">a\nMK..V\n>b\nMKlaV\n"))[1] == "MKlaV"
    assert "read as aligned" not in caplog.text


def test_headers_keep_name_and_description(tmp_path):
    alignment = read(tmp_path, ">a\tdeux  mots \nMK\n>\nMK\n> b\nMK\n>a é\nMK\n")
    assert alignment.names == ["a", "row2", "b", "a"]
    assert alignment.descriptions == ["deux  mots", "", "", "é"]


def test_structure_records_of_hhsuite_are_no_rows(tmp_path):
    text = ">ss_pred\nCHE\n>ss_conf\n987\n>q\nMKV\n>b\nMaK-\n"
    alignment = read(tmp_path, text)
    assert alignment.names == ["q", "b"]
    assert rows(alignment) == ["MKV", "MaK-"]


def test_stockholm_descriptions_and_repeated_names(tmp_path):
    alignment = read(tmp_path, STOCKHOLM)
    assert (alignment.names, alignment.descriptions) == (["a/1-4", "b"], ["", "protein b"])
    first, second = "a MK\n#=GR a SS HH\na ML\n", "a V-\na VV\n"
    assert rows(read(tmp_path, f"# STOCKHOLM 1.0\n{first}\n{second}//\n")) == ["MKV-", "MLVV"]


def test_stockholm_blocks_of_different_or_reordered_rows(tmp_path):
    assert rows(read(tmp_path, "# STOCKHOLM 1.0\n\nquery MK\n\nb ML\nc MV\n\n//\n")) == ["MK", "ML", "MV"]
    assert rows(read(tmp_path, "# STOCKHOLM 1.0\na MK\nb ML\n\nb VV\na V-\n//\n")) == ["MKV-", "MLVV"]


REFUSED = {
    "": "x: is empty, an alignment is needed",
    ">a\nMK\n>b\nMKV\n": "x:3: row 'b' has 3 columns .*are these sequences aligned",
    ">a\nMK-\n>b\nMKVV\n": "x:3: row 'b' has 4 columns but the first row, 'a', has 3; .*equally long$",
    ">a\nMKV\n>b\nMaV\n>c\nM\n": "x:3: row 'b' has 2 match columns .* 'a', has 3",
    ">a\nMKa\n>b\nM?\n": "x:3: row 'b', position 2: '\\?' is no residue \\(write X for an unknown residue or - ",
    "#NEXUS\nbegin trees;\nend;\n": "x: cannot be read as NEXUS \\(No records found in handle\\)",
    ">a\nMK\n>b\nM1\n": "x:3: row 'b', position 2: '1' is no residue",
    ">a\n>b\n": "x:1: row 'a', the first, has no columns",
    "text\n>a\nMK\n": "x: starts with 'text'",
    ">a\nMK\n\0>b\nMK\n\0": "x: holds alignments of 2 queries \\('a', 'b'\\), NUL bytes .*mmseqs unpackdb",
    "#3\t2\n>101\nMKV\n": "x:1: '#3\\\\t2' is ColabFold's header of a multimer \\(lengths",
    "#2,1\t1,3\n>101\t102\nMKV\n": "x:1: '#2,1\\\\t1,3' is .*; give the alignment of one chain",
    "# STOCKHOLM 1.0\n//\n": "x: the alignment holds no row",
    "# STOCKHOLM 1.0\na MK\n//\n# STOCKHOLM 1.0\nb MK\n//\n": "x:4: a second alignment starts here",
    "# STOCKHOLM 1.0\na MK\nb\n//\n": "x:3: a row needs a name and its letters",
    "# STOCKHOLM 1.0\na M K\n//\n": "x:2: row 'a', position 2: ' ' is no residue",
    "# STOCKHOLM 1.0\na MK\nb MK\n\na MK\n//\n": "x:3: row 'b' has 2 columns but the first row, 'a', has 4",
    "CLUSTAL W\n\na MK\nb MK V\n": "x:4: a Clustal row is 'name letters' and perhaps a count",
    "2 3\na MKV\nb MKVL\n": "x:3: row 'b' has 4 columns; the first line promises 2 rows of 3 columns",
    "2 3\na MKV\n": "x:2: the file ends after 1 row;",
    "1 3\na MKV\nb MKV\n": "x:3: the file goes on after the last row",
    "2 3\na MKV\nb MK.\n": "x:3: row 'b': '.' means the letter of the first row in some PHYLIP files",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_in_one_sentence(tmp_path, text):
    with pytest.raises(FormatError, match=REFUSED[text]) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "x") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files(tmp_path, pack):
    packed = pack(STOCKHOLM.encode())
    assert rows(read(tmp_path, packed, "any.name")) == DETECTED[STOCKHOLM]
    for broken in (packed[:40], packed[:20] + b"??" + packed[22:]):
        with pytest.raises(FormatError, match="compressed data end early or are damaged"):
            read(tmp_path, broken)


def test_nuls_end_the_blocks_of_mmseqs(tmp_path):
    assert rows(read(tmp_path, ">a\nMK\n\0")) == ["MK"]
    blocks = ">101\nMKV\n>x\t340\t0.97\t1e-9\t0\t2\t3\t5\t7\t20\nM-Va\n\0>101\nMKV\n>y\nMqKV\n\0"
    alignment = read(tmp_path, "#3\t1\n" + blocks.replace("\0", "\n"))
    assert rows(alignment) == rows(read(tmp_path, blocks)) == ["MKV", "M-Va", "MKV", "MqKV"]
    assert alignment.descriptions[1] == "340\t0.97\t1e-9\t0\t2\t3\t5\t7\t20"
