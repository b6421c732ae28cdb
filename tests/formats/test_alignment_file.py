"""Reading alignments of every format: what is found, what is kept, what is refused, and in which words."""

import gzip
import io
import lzma
from pathlib import Path
from types import SimpleNamespace

import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import AlignmentFormat, parse_a3m, read_alignment, write_a3m

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


def rows(alignment):
    return [alignment.row_with_insertions(index) for index in range(alignment.num_rows)]


def read(folder, text, name="x", format=None):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_alignment(path, format=AlignmentFormat(format) if format else None)


DETECTED = {
    # Aligned FASTA: one case only, dots and dashes are gaps.
    ">a one\nMK.-V\n>b\nMKLLV\n": ["MK--V", "MKLLV"],
    ">a\nmk.-v\n>b\nmkllv\n": ["MK--V", "MKLLV"],
    ">a\nMK.\n-V\n\n>b\nM K L\nLV\n": ["MK--V", "MKLLV"],
    # A3M: rows become equally long without their lower case.
    ">a\nMKV\n>b\nMaKVc\n": ["MKV", "MaKVc"],
    "#3\t1\n>a\nMKV\n>b\nMaKVc\n": ["MKV", "MaKVc"],
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
}


@pytest.mark.parametrize("text", DETECTED)
def test_format_is_found_by_content(tmp_path, text):
    assert rows(read(tmp_path, text)) == DETECTED[text]
    assert rows(read(tmp_path, "\ufeff" + text.replace("\n", "\r\n"))) == DETECTED[text]
    assert rows(read(tmp_path, text.replace("\n", "\r"))) == DETECTED[text]


@pytest.mark.parametrize(
    ("text", "format", "expected"),
    [
        (">a\nMaKV\n>b\nMKaV\n", None, ["MaKV", "MKaV"]),
        (">a\nMaKV\n>b\nMKaV\n", "fasta", ["MAKV", "MKAV"]),
        (">a\nMK.V\n>b\nMK.V\n", None, ["MK-V", "MK-V"]),
        (">a\nMK.V\n>b\nMK.V\n", "a2m", ["MKV", "MKV"]),
        (">a\nMKlV\n", "fasta", ["MKLV"]),
        (">a\nMKlV\n", "a3m", ["MKlV"]),
        ("MUSCLE\nMUSKEL\n", "psicov", ["MUSCLE", "MUSKEL"]),
    ],
)
def test_an_explicit_format_wins(tmp_path, text, format, expected):
    assert rows(read(tmp_path, text, format=format)) == expected


def test_a_broken_file_named_a3m_is_not_read_as_fasta(tmp_path, caplog):
    text = ">a\nMKVL\n>b\nMKvL\n>c\nMKVl\n>d\nM-kL\n>e\nmK-L\n>f\nMkvL\n"
    assert rows(read(tmp_path, text, "x.fasta"))[5] == "MKVL"
    assert "so these are read as aligned residues, as in FASTA" in caplog.text
    with pytest.raises(FormatError, match=r"x.a3m:3: row 'b' has 3 match columns .* has 4"):
        read(tmp_path, text, "x.a3m")


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


def test_a_stockholm_file_cut_off_is_said(tmp_path, caplog):
    read(tmp_path, "# STOCKHOLM 1.0\na MK\n")
    assert "the closing '//' is missing" in caplog.text


REFUSED = {
    "": "x: is empty, an alignment is needed",
    ">a\nMK\n>b\nMKV\n": "x:3: row 'b' has 3 columns .*are these sequences aligned",
    ">a\nMK-\n>b\nMKVV\n": "x:3: row 'b' has 4 columns but the first row, 'a', has 3; .*equally long$",
    ">a\nMKV\n>b\nMaV\n>c\nM\n": "x:3: row 'b' has 2 match columns .* 'a', has 3",
    ">a\nMK*\n": "x:1: row 'a', position 3: '\\*' is no residue \\(a stop; remove it or write X\\)",
    ">a\nMK\n>b\nM1\n": "x:3: row 'b', position 2: '1' is no residue",
    ">a\n>b\n": "x:1: row 'a', the first, has no columns",
    "text\n>a\nMK\n": "x: starts with 'text'",
    "a MK\nb MK\n": "alignments are read from A3M",
    ">a\nMK\n\0>b\nMK\n\0": "x: holds alignments of 2 queries \\('a', 'b'\\), NUL bytes .*mmseqs unpackdb",
    "#3\t2\n>101\nMKV\n": "x:1: '#3\\\\t2' is ColabFold's header of a multimer \\(lengths",
    "#2,1\t1,3\n>101\t102\nMKV\n": "x:1: '#2,1\\\\t1,3' is .*; give the alignment of one chain",
    "# STOCKHOLM 1.0\n//\n": "x: the alignment holds no row",
    "# STOCKHOLM 1.0\na MK\n//\n# STOCKHOLM 1.0\nb MK\n//\n": "x:4: a second alignment starts here",
    "# STOCKHOLM 1.0\na MK\nb\n//\n": "x:3: a row needs a name and its letters",
    "# STOCKHOLM 1.0\na M K\n//\n": "x:2: row 'a', position 2: ' ' is no residue",
    "# STOCKHOLM 1.0\na MK\nb MK\n\na MK\n//\n": "x:3: row 'b' has 2 columns but the first row, 'a', has 4",
    "CLUSTAL W\n\na MK\nb MK V\n": "x:4: a Clustal row is 'name letters' and perhaps a count",
    "CLUSTAL W\n\na MK\nb M\n": "x:4: row 'b' has 1 column ",
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


@pytest.mark.parametrize("format", AlignmentFormat)
def test_an_explicit_format_refuses_other_text(tmp_path, format):
    with pytest.raises(FormatError, match=str(tmp_path)):
        read(tmp_path, "GIF89a 12 34\n", format=format)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_and_standard_input(tmp_path, pack, monkeypatch):
    packed = pack(STOCKHOLM.encode())
    assert rows(read(tmp_path, packed, "any.name")) == DETECTED[STOCKHOLM]
    for data in (packed, STOCKHOLM.encode()):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert rows(read_alignment(Path("-"))) == DETECTED[STOCKHOLM]
    for broken in (packed[:40], packed[:20] + b"??" + packed[22:]):
        with pytest.raises(FormatError, match="compressed data end early or are damaged"):
            read(tmp_path, broken)
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(broken)))
        with pytest.raises(FormatError, match="standard input: the compressed data end early or are damaged"):
            read_alignment(Path("-"))


def test_unreadable_inputs(tmp_path):
    with pytest.raises(BioattnError, match="no such file"):
        read_alignment(tmp_path / "none.a3m")
    with pytest.raises(BioattnError, match="is a folder"):
        read_alignment(tmp_path)
    with pytest.raises(FormatError, match=r"not UTF-8 text \(byte 0xe9\)"):
        read(tmp_path, ">a\xe9\nMK\n".encode("latin-1"))


def test_nuls_end_the_blocks_of_mmseqs(tmp_path):
    assert rows(read(tmp_path, ">a\nMK\n\0")) == ["MK"]
    blocks = ">101\nMKV\n>x\t340\t0.97\t1e-9\t0\t2\t3\t5\t7\t20\nM-Va\n\0>101\nMKV\n>y\nMqKV\n\0"
    alignment = read(tmp_path, "#3\t1\n" + blocks.replace("\0", "\n"))
    assert rows(alignment) == rows(read(tmp_path, blocks)) == ["MKV", "M-Va", "MKV", "MqKV"]
    assert alignment.descriptions[1] == "340\t0.97\t1e-9\t0\t2\t3\t5\t7\t20"


def test_a_header_that_would_not_come_back_is_not_written(tmp_path):
    good = parse_a3m("x", b">a\nMK\n")
    for name, description in [("a b", ""), ("", ""), ("a", "two\nlines")]:
        bad = Alignment(names=[name], descriptions=[description], residues=good.residues, insertions=[{}])
        with pytest.raises(FormatError, match="cannot be a header"):
            write_a3m(bad, tmp_path / "y.a3m")
    assert list(tmp_path.iterdir()) == []
