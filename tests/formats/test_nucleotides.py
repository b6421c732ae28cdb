"""DNA codes against Biopython and plain loops."""

import contextlib

import numpy as np
import pytest
from Bio.Seq import Seq
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import decode, encode, reverse_complement

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


def test_reverse_complement_works_along_the_last_axis():
    batch = np.stack([encode("AACG"), encode("NTTT")])
    assert [decode(row) for row in reverse_complement(batch)] == ["CGTT", "AAAN"]


@pytest.mark.parametrize(
    ("sequence", "position", "word"),
    [
        ("ACGU", "4", "RNA"),
        ("MKLV", "3", "DNA"),
        ("AC-GT", "3", "gap"),
        ("AC*", "3", "gap"),
        ("A1", "2", "DNA"),
        ("AC\0", "3", "DNA"),
    ],
)
def test_other_letters_are_refused_with_record_and_position(sequence, position, word):
    with pytest.raises(FormatError, match=rf"record 'x', position {position}: .*{word}"):
        encode(sequence, "record 'x'")


def test_position_counts_from_the_start_of_the_record():
    with pytest.raises(FormatError, match="position 1,004"):
        encode("ACG!", offset=1000)


@given(st.text() | st.binary())
def test_anything_else_is_refused_cleanly(garbage):
    with contextlib.suppress(BioattnError):
        assert encode(garbage).max(initial=0) <= 4
