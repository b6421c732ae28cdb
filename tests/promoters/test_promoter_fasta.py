"""Promoter FASTA: round trip and refusals."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import decode, encode
from bioattn.promoters.promoter_fasta import Promoter, read_promoters, write_promoters

NAMES = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=1, max_size=10)


@st.composite
def promoters(draw):
    sequence = draw(st.text("ACGTN", min_size=1, max_size=80))
    flank = draw(st.integers(0, (len(sequence) - 1) // 2))
    start = draw(st.integers(-1000, 10**9))
    strand = draw(st.sampled_from("+-."))
    end = start + len(sequence) - 2 * flank
    downstream = draw(st.none() | st.integers(0, end - start))
    return Promoter(draw(NAMES), draw(NAMES), start, end, strand, flank, encode(sequence), downstream)


@given(st.lists(promoters(), min_size=1, max_size=5, unique_by=lambda p: p.gene_id))
@pytest.mark.parametrize("name", ["p.fa", "p.fa.gz"])
def test_what_is_written_is_read_back(tmp_path, name, written):
    write_promoters(tmp_path / name, written)
    read = list(read_promoters(tmp_path / name))
    assert [(p[:6], p.downstream) for p in read] == [(p[:6], p.downstream) for p in written]
    for ours, theirs in zip(read, written, strict=True):
        np.testing.assert_array_equal(ours.codes, theirs.codes)


def test_fasta_of_other_origin_is_accepted(tmp_path):
    path = tmp_path / "p.fa"
    path.write_text(
        ">g1\nACgtR\n>g2 some text\nAC\n>g3 chrI:5-7(-) more flank=1 words\nACGT\n"
        f">g4 chrI:1-{'9' * 5000}(-)\nA\n"
    )
    first, second, third, fourth = read_promoters(path)
    assert (first.gene_id, first.chrom, first.start, first.end, first.strand, first.flank) == (
        "g1",
        "",
        -1,
        -1,
        ".",
        0,
    )
    assert decode(first.codes) == "ACGTN"
    assert second.chrom == fourth.chrom == ""  # what is no place on a chromosome is a description
    assert third[:6] == ("g3", "chrI", 5, 7, "-", 1)


@given(st.text(">gc:1-5(+) flank=\nACGT", max_size=60))
def test_garbage_raises_only_our_error(tmp_path, text):
    path = tmp_path / "p.fa"
    path.write_text(text)
    with contextlib.suppress(BioattnError):
        list(read_promoters(path))


@pytest.mark.shared
def test_real_fasta_of_every_origin_is_read_or_refused(shared):
    """Any FASTA can be handed to a model: DNA comes through, everything else is refused by record."""
    outcomes = {"read": 0, "refused": 0}
    for path in sorted((shared / "data" / "parsers" / "fasta").iterdir()):
        try:
            assert all(promoter.codes.max() <= 4 for promoter in read_promoters(path))
            outcomes["read"] += 1
        except FormatError:
            outcomes["refused"] += 1
    assert outcomes["read"] >= 40
    assert outcomes["refused"] >= 40
