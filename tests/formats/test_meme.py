"""Motif files against Biopython, by hand, and with generated input."""

import gzip

import numpy as np
import pytest
from Bio import motifs as bio_motifs
from Bio.motifs import transfac
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bioattn.errors import FormatError
from bioattn.formats.meme import Motif, read_meme, write_meme

MINIMAL = """MEME version 4

ALPHABET= ACGT

strands: + -

Background letter frequencies
A 0.3 C 0.2 G 0.2 T 0.3

MOTIF first STE12
letter-probability matrix: alength= 4 w= 2 nsites= 30 E= 0
1 0 0 0
0.5 0.25 0.25 0
URL none

MOTIF second
letter-probability matrix: alength= 4
 0.1 0.2 0.3 0.4
"""
LETTERS = st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("Zs", "Cc", "Zl"))
NAMES = st.text(LETTERS, min_size=1)


def test_the_minimal_format(tmp_path):
    (tmp_path / "m.meme").write_text(MINIMAL)
    database = read_meme(tmp_path / "m.meme")
    assert database.background.tolist() == [0.3, 0.2, 0.2, 0.3]
    assert [(motif.name, motif.alternative_name, motif.sites) for motif in database.motifs] == [
        ("first", "STE12", 30),
        ("second", "", 20),
    ]
    assert database.motifs[0].probabilities.tolist() == [[1, 0, 0, 0], [0.5, 0.25, 0.25, 0]]
    assert database.motifs[1].width == 1


def test_consensus_and_information_by_hand():
    rows = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.4, 0.3, 0.3, 0], [0.25, 0.25, 0.25, 0.25], [0, 0.1, 0.1, 0.8]]
    motif = Motif(name="m", probabilities=np.array(rows))
    assert (motif.consensus, motif.iupac_consensus) == ("AAAAT", "AMVNT")
    third, last = 2 + 0.4 * np.log2(0.4) + 0.6 * np.log2(0.3), 2 + 0.2 * np.log2(0.1) + 0.8 * np.log2(0.8)
    assert motif.information == pytest.approx(2 + 1 + third + 0 + last)


@pytest.mark.parametrize(
    ("file", "format"),
    [
        ("JASPAR2024_CORE_fungi.meme", "minimal"),
        ("regulonDB_2025-05.meme", "minimal"),
        ("HOCOMOCO_H12CORE.meme.gz", "minimal"),
        ("JASPAR2018_CORE_fungi.jaspar_pfm.txt", "jaspar"),
        ("JASPAR2024_CORE_fungi_non-redundant_pfms_transfac.txt", "transfac"),
    ],
)
def test_databases_read_as_biopython_reads_them(shared, file, format):
    path = shared / "data" / "motifs" / file
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as text:
        if format == "transfac":
            expected = list(transfac.read(text, strict=False))
        else:
            expected = list(bio_motifs.parse(text, format))
    found = read_meme(path).motifs
    assert len(found) == len(expected) > 100
    for motif, other in zip(found, expected, strict=True):
        if format == "transfac":
            assert (motif.name, motif.alternative_name) == (other["AC"], other["ID"])
        elif format == "jaspar":
            assert (motif.name, motif.alternative_name) == (other.matrix_id, other.name)
        else:
            assert motif.name == other.name.split()[0]
            assert motif.sites == other.num_occurrences
        matrix = np.array([other.counts[base] for base in "ACGT"], dtype=float).T
        matrix /= matrix.sum(axis=1, keepdims=True)
        # Of a MEME file Biopython makes whole counts.
        error = 2 / motif.sites if format == "minimal" else 1e-9
        np.testing.assert_allclose(motif.probabilities, matrix, rtol=0, atol=error)


@st.composite
def motif_lists(draw):
    made = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        width = draw(st.integers(1, 12))
        weights = draw(hnp.arrays(np.float64, (width, 4), elements=st.floats(0, 1, width=32)))
        weights[weights.sum(axis=1) < 1e-3] = 1.0
        made.append(
            Motif(
                name=name,
                alternative_name=draw(st.one_of(st.just(""), NAMES.filter(lambda text: text != "width"))),
                probabilities=weights / weights.sum(axis=1, keepdims=True),
                sites=draw(st.integers(1, 10_000)),
            )
        )
    return made


@given(made=motif_lists())
def test_what_is_written_reads_back(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("meme") / "m.meme"
    write_meme(path, made, (0.31, 0.19, 0.19, 0.31))
    database = read_meme(path)
    assert database.background.tolist() == pytest.approx([0.31, 0.19, 0.19, 0.31])
    for motif, back in zip(made, database.motifs, strict=True):
        assert (back.name, back.sites) == (motif.name, motif.sites)
        if not motif.alternative_name.startswith("width"):
            assert back.alternative_name == motif.alternative_name
        np.testing.assert_allclose(back.probabilities, motif.probabilities, atol=3e-6)
    assert [motif.name for motif in bio_motifs.parse(path.open(encoding="utf-8"), "minimal")]


@pytest.mark.parametrize(
    "text",
    [
        ">MA1 ABC\nA [ 1 0 2 ]\nC [ 0 0 2 ]\nG [ 0 4 0 ]\nT [ 3 0 0 ]\n",
        ">MA1 ABC\n1 0 2\n0 0 2\n0 4 0\n3 0 0\n",
        "\n1\t0\t2\n0\t0\t2\n0\t4\t0\n3\t0\t0\n",
        "A | 1 0 2\nC | 0 0 2\nG | 0 4 0\nT | 3 0 0\n",
        "A\t1\t0\t2\nT\t3\t0\t0\nG\t0\t4\t0\nC\t0\t0\t2\n",
        "AC MA1\nXX\nID ABC\nPO A C G T\n01 1 0 0 3 W\n02 0 0 4 0 G\n03 2 2 0 0 M\nXX\n//\n",
        ">MA1 ABC\n1 0 0 3\n0 0 4 0\n2 2 0 0\n",
        ">ATR\tMA1\t6.5\t-10\t0\n1\t0\t0\t3\n0\t0\t4\t0\n2\t2\t0\t0\n",
        "Pos\tA\tC\tG\tT\n1\t1\t0\t0\t3\n2\t0\t0\t4\t0\n3\t2\t2\t0\t0\n",
        "AC MA1\nXX\nID ABC\nP0 T G C A\n01 3 0 0 1\n02 0 4 0 0\n03 0 0 2 2\n//\n",
        "AC MA1\nXX\nID V$X\nNA ABC\nP0 A C G T\n01 1 0 0 3\n02 0 0 4 0\n03 2 2 0 0\n//\n",
        "DE\tMA1\n0\t1\t0\t0\t3\tT\n1\t0\t0\t4\t0\tG\n2\t2\t2\t0\t0\tM\nXX\n",
        "TF\tT1\nTF Name\tABC\nMotif\tMA1\nPos\tA\tC\tG\tT\n1\t1\t0\t0\t3\n2\t0\t0\t4\t0\n3\t2\t2\t0\t0\n",
        "Protein: ABC\tSeed k-mer: ACGT\nA:\t1\t0\t2\nC:\t0\t0\t2\nG:\t0\t4\t0\nT:\t3\t0\t0\n",
        "; a comment of RSAT\nA | 1 0 2\nC | 0 0 2\nG | 0 4 0\nT | 3 0 0\n//\n",
    ],
)
def test_count_matrices(tmp_path, text):
    (tmp_path / "MA1.pfm").write_text(text)
    (motif,) = read_meme(tmp_path / "MA1.pfm").motifs
    assert motif.name == "MA1"
    assert motif.alternative_name == ("ABC" if "ABC" in text else "MA1" if "ATR" in text else "")
    assert motif.sites == 4
    assert motif.probabilities.tolist() == [[0.25, 0, 0, 0.75], [0, 0, 1, 0], [0.5, 0.5, 0, 0]]


FOUR = {
    ">x\n0 0 0 100\n0 0 98 2\n100 0 0 0\n1 97 1 1\n": "TGAC",  # rows sum to 100
    ">x\n0 0 100 1\n0 0 0 97\n0 98 0 1\n100 2 0 1\n": "TGAC",  # columns do
    "0.1 0.2 0.3 0.4\n0 0.5 0.5 0\n0.7 0.1 0.1 0.1\n0.7 0.1 0.1 0.1\n": "TCAA",
    ">TGAC\tAP1 core(bZIP)\t6.0\n0 0 0 1\n0 0 1 0\n1 0 0 0\n0 1 0 0\n": "TGAC",  # HOMER's header
    ">x\n0 0 0 1\n0 0 1 0\n1 0 0 0\n0 1 0 0\n>y\n1 0 0 0\n": "TGAC",  # as the others of the file
    "A [ 0 0 1 0 ]\nC [ 0 0 0 1 ]\nG [ 0 1 0 0 ]\nT [ 1 0 0 0 ]\n": "TGAC",
}


@pytest.mark.parametrize("text", FOUR)
def test_rows_of_four_by_four_are_told_by_sums(tmp_path, text, caplog):
    (tmp_path / "m").write_text(text)
    assert read_meme(tmp_path / "m").motifs[0].consensus == FOUR[text]
    assert not caplog.text


def test_rows_that_nothing_tells_are_bases_with_a_warning(tmp_path, caplog):
    (tmp_path / "m").write_text(">x\n0 0 0 1\n0 0 1 0\n1 0 0 0\n0 1 0 0\n")
    assert read_meme(tmp_path / "m").motifs[0].consensus == "GTCA"
    assert "m:1: nothing tells" in caplog.text


def test_output_of_the_meme_program_is_read(tmp_path):
    (tmp_path / "meme.txt").write_text(
        """********************************
MEME - Motif discovery tool
********************************
MEME version 5.5.5 (Release date: Thu Sep 14 08:48:04 2023 +1000)

ALPHABET "DNA" DNA-LIKE
A "Adenine" CC0000 ~ T "Thymine" 008000
C "Cytosine" 0000CC ~ G "Guanine" FFB300
END ALPHABET

Letter frequencies in dataset:
A 0.3 C 0.2 G 0.2 T 0.3
Background letter frequencies (from file upstream.bg):
A 0.32 C 0.18
G 0.18 T 0.32
MOTIF GC MEME-1\twidth =   2  sites =   5  llr = 10  E-value = 1.0e-001
\tMotif GC MEME-1 position-specific scoring matrix
log-odds matrix: alength= 4 w= 2 n= 90 bayes= 6 E= 1.0e-001
  -100  -100 200 -100
  -100  200 -100 -100
\tMotif GC MEME-1 position-specific probability matrix
letter-probability matrix: alength= 4 w= 2 nsites= 5 E= 1.0e-001
 0.000000  0.200000  0.800000  0.000000
 0.000000  1.000000  0.000000  0.000000
--------------------------------
Time  0.10 secs.
"""
    )
    database = read_meme(tmp_path / "meme.txt")
    (motif,) = database.motifs
    assert (motif.name, motif.alternative_name, motif.sites) == ("GC", "MEME-1", 5)
    assert motif.probabilities.tolist() == [[0, 0.2, 0.8, 0], [0, 1, 0, 0]]
    assert database.background.tolist() == [0.32, 0.18, 0.18, 0.32]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("gene\tvalue\nA\t1\n", "is no motif file"),
        ("MEME version 4\nALPHABET= ACDEFGHIKLMNPQRSTVWY\n", ":2: 'ALPHABET= ACD"),
        (MINIMAL.replace("w= 2", "w= 3"), ":11: the matrix of first has 2 rows, w= 3 expected"),
        (MINIMAL.replace("1 0 0 0", "1 0 0"), ":12: '1 0 0' is no position"),
        (MINIMAL.replace("second", "first"), "two motifs named 'first'"),
        (">M\n1 2\n1 2\n1 2\n", ":1: motif M has 3 rows"),
        (">M\n1 0\n1 0\n1 0\n1 0\n", "position 2 of motif M has no counts"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    path = tmp_path / "bad.meme"
    path.write_text(text)
    with pytest.raises(FormatError) as raised:
        read_meme(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
