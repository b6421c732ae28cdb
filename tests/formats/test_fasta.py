"""FASTA files and sequences of nucleotides, shuffled ones among them."""

import gzip
import io
import lzma
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
from Bio.Seq import Seq
from Bio.SeqIO.FastaIO import SimpleFastaParser
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from bioattn.errors import FormatError
from bioattn.formats.fasta import FastaRecord, read_fasta, write_fasta
from bioattn.formats.nucleotides import UNKNOWN, decode, dinucleotide_shuffled, encode, reverse_complement

IUPAC = "ACGTRYSWKMBDHVNacgtryswkmbdhvnXx"


@given(st.text(IUPAC))
def test_codes_keep_the_four_bases_and_call_the_rest_n(sequence):
    expected = "".join(base if base in "ACGT" else "N" for base in sequence.upper())
    assert decode(encode(sequence)) == expected
    assert decode(encode(sequence.encode())) == expected


@given(st.text("ACGTN"))
def test_reverse_complement_is_biopythons_and_its_own_inverse(sequence):
    codes = encode(sequence)
    assert decode(reverse_complement(codes)) == str(Seq(sequence).reverse_complement())
    np.testing.assert_array_equal(reverse_complement(reverse_complement(codes)), codes)


@pytest.mark.parametrize(
    ("sequence", "position", "word"), [("ACGU", "4", "RNA"), ("MKLV", "3", "DNA"), ("AC-GT", "3", "gap")]
)
def test_other_letters_are_refused_with_record_and_position(sequence, position, word):
    with pytest.raises(FormatError, match=rf"record 'x', position {position}: .*{word}"):
        encode(sequence, "record 'x'")


NAMES = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
DESCRIPTIONS = st.text("abc =:-()>", max_size=20).map(str.strip)
RECORDS = st.lists(
    st.tuples(NAMES, DESCRIPTIONS, st.text("ACGTN", max_size=200)),
    min_size=1,
    max_size=6,
    unique_by=lambda t: t[0],
)


@given(RECORDS)
def test_what_is_written_is_read_back(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("fasta") / "x.fa"
    write_fasta(path, (FastaRecord(*record) for record in records))
    assert [tuple(record[:3]) for record in read_fasta(path)] == records
    with path.open() as file:  # Biopython reads the same
        assert [(title.split()[0], sequence) for title, sequence in SimpleFastaParser(file)] == [
            (name, sequence) for name, _, sequence in records
        ]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_compression_and_line_ends_do_not_matter(tmp_path, pack, newline):
    text = newline.join(["; a comment", "", ">a one two ", "AC GT", "", "\tN", ">b", "TT"])
    path = tmp_path / "any.name"
    path.write_bytes(pack(("\ufeff" + text).encode()))
    assert list(read_fasta(path)) == [FastaRecord("a", "one two", "ACGTN", 3), FastaRecord("b", "", "TT", 7)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no FASTA record"),
        (b"ACGT\n", r"x\.fa:1: 'ACGT' stands where a FASTA header"),
        (b">a\nA\n>b\nC\n>a\nG\n", r"x\.fa:5: the name 'a' was used on line 1"),
        (b">a\n\xff\xfe\n", "not UTF-8"),
        (gzip.compress(b">a\n" + b"ACGT\n" * 100, mtime=0)[:20], "compressed data end early or are damaged"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path, content, message):
    path = tmp_path / "x.fa"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        list(read_fasta(path))


# Where the reader differs from Biopython on purpose.
REFUSED = {
    "names must be unique": [
        "BioFmtSpecimens__pictogram.fasta",
        "biopython__nucleotide_lib.fa",
        "htslib__filter_casava.fa",  # paired reads share names
        "htslib__interleaved_casava.fa",
        "scikit-bio__fasta_10_seqs",
    ],
    "has no name after": [
        "scikit-bio__fasta_multi_seq",
        "scikit-bio__fasta_multi_seq_spaces",
        "scikit-bio__fasta_blank_lines_between_records",
        "scikit-bio__fasta_ws_lines_between_records",
        "scikit-bio__fasta_ws_lines_end_of_file",
        "scikit-bio__fasta_5_blanks_start_of_file",
        "scikit-bio__fasta_5_ws_lines_start_of_file",
        "scikit-bio__fasta_tabular_msa_different_type",
        "seqkit__empty_id_and_seq.fa",
        "seqkit__empty_id_and_seq2.fa",
    ],
}
ACCEPTED = {"easel__fasta.2": "blank lines before the first record are harmless"}


@pytest.mark.shared
def test_the_corpus_is_read_as_biopython_reads_it(corpus):
    refused = {name: reason for reason, names in REFUSED.items() for name in names}
    for entry in corpus("fasta"):
        name = entry.path.name
        if name in refused:
            with pytest.raises(FormatError, match=refused[name]):
                list(read_fasta(entry.path))
        elif entry.verdict.startswith("ok") or name in ACCEPTED:
            records = list(read_fasta(entry.path))
            if name not in ACCEPTED:
                assert f"ok:{len(records)}" == entry.verdict, name
            opened = gzip.open if name.endswith(".gz") else open
            with opened(entry.path, "rt") as file:
                text = file.read().lstrip()
            expected = list(SimpleFastaParser(io.StringIO(text)))
            assert [r.sequence for r in records] == ["".join(s.split()) for _, s in expected], name
        else:
            with pytest.raises(FormatError):
                list(read_fasta(entry.path))


def pairs(codes):
    return Counter(pairwise(codes.tolist()))


@given(st.lists(st.integers(0, UNKNOWN), min_size=1, max_size=60), st.integers(0, 1000))
def test_keeps_dinucleotides_ends_and_n(bases, seed):
    codes = np.array([bases], dtype=np.uint8)
    shuffled = dinucleotide_shuffled(codes, np.random.default_rng(seed))[0]
    assert pairs(shuffled) == pairs(codes[0])
    np.testing.assert_array_equal(shuffled == UNKNOWN, codes[0] == UNKNOWN)
    assert (shuffled[0], shuffled[-1]) == (codes[0, 0], codes[0, -1])


@pytest.mark.parametrize("text", ["ACAGACAT", "AACAGA", "ACGTACGTC", "AACCAGTCA"])
def test_every_possible_sequence_is_equally_likely(text):
    """Against all orders of the bases that keep the pairs, enumerated one by one."""
    codes = encode(text)
    orders = {(codes[0], *order) for order in permutations(codes[1:].tolist())}
    possible = {order for order in orders if pairs(np.array(order)) == pairs(codes)}
    draws = np.tile(codes, (300 * len(possible), 1))
    found = Counter(decode(row) for row in dinucleotide_shuffled(draws, np.random.default_rng(0)))
    assert set(found) == {decode(np.array(order, np.uint8)) for order in possible}
    assert chisquare(list(found.values())).pvalue > 0.001
