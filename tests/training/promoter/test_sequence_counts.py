"""K-mer and codon counts against string counting."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.models.promoter.training.ridge import Kmers, Standardiser, find_start_codon
from bioattn.promoters.homology import canonical_columns

COMPLEMENT = str.maketrans("ACGT", "TGCA")


def encoded(*sequences):
    return np.array([["ACGTN".index(letter) for letter in sequence] for sequence in sequences], np.uint8)


def count(codes, k, canonical=False, step=1, start=-1000, stop=0):
    return Kmers(k, start, stop, canonical, step).count(codes)


def counted(sequence, k, canonical, step=1):
    """Counter of k-mers by slicing the string."""
    kmers = (sequence[start : start + k] for start in range(0, len(sequence) - k + 1, step))
    kmers = [kmer for kmer in kmers if "N" not in kmer]
    return Counter(min(kmer, kmer[::-1].translate(COMPLEMENT)) if canonical else kmer for kmer in kmers)


def all_kmers(k, canonical):
    """K-mers in the order of the feature columns."""
    kmers = [""]
    for _ in range(k):
        kmers = [kmer + letter for kmer in kmers for letter in "ACGT"]
    return [kmer for kmer in kmers if not canonical or kmer <= kmer[::-1].translate(COMPLEMENT)]


@given(st.text("ACGTN", min_size=0, max_size=40), st.integers(1, 4), st.booleans(), st.sampled_from([1, 3]))
def test_counts_equal_string_counting(sequence, k, canonical, step):
    codes = encoded(sequence).reshape(1, len(sequence))
    expected = counted(sequence, k, canonical, step)
    found = count(codes, k, canonical, step)[0]
    assert found.tolist() == [expected[kmer] for kmer in all_kmers(k, canonical)]


@pytest.mark.parametrize(("k", "features"), [(1, 2), (2, 10), (3, 32), (6, 2080)])
def test_number_of_canonical_kmers(k, features):
    assert len(set(canonical_columns(k).tolist())) == features


def test_canonical_counts_do_not_change_on_the_other_strand():
    codes = np.random.default_rng(0).integers(0, 4, size=(5, 60)).astype(np.uint8)
    other_strand = (3 - codes)[:, ::-1]
    assert (count(codes, 4, True) == count(other_strand, 4, True)).all()
    assert (count(codes, 4) != count(other_strand, 4)).any()


def test_many_genes_are_counted_in_blocks():
    codes = np.random.default_rng(0).integers(0, 5, size=(9000, 500)).astype(np.uint8)
    counts = count(codes, 2)
    assert (counts[[0, 8999]] == count(codes[[0, 8999]], 2)).all()


def test_regions_count_from_the_right_end():
    codes = encoded("AACCGGTT")
    assert count(codes, 1, start=-2).tolist() == [[0, 0, 0, 2]]
    assert count(codes, 1, start=-100, stop=-6).tolist() == [[2, 0, 0, 0]]
    assert count(codes, 1, start=-100, stop=-50).sum() == 0
    assert count(codes, 2, start=-4, stop=-2).sum() == 1
    assert count(codes, 3, start=-2).sum() == 0


def test_codons_are_read_in_frame():
    counts = count(encoded("CATGAAATT"), 3, step=3, start=-8)  # ATG AAA, and TT is no codon
    assert counts.sum() == 2
    assert counts[0, all_kmers(3, False).index("ATG")] == 1
    assert counts[0, all_kmers(3, False).index("AAA")] == 1


def test_bump_weights_are_largest_at_their_centre():
    sequence = "A" * 100
    block = Kmers(1, -100, 0, centre=-30, width=10)
    total = block.count(encoded(sequence)).sum()
    distances = np.arange(-100, 0) + 0.5 + 30
    assert total == pytest.approx(np.exp(-0.5 * (distances / 10) ** 2).sum(), rel=1e-5)
    at_centre = block.count(encoded("T" * 0 + "C" * 70 + "A" + "C" * 29))
    far_away = block.count(encoded("A" + "C" * 99))
    assert at_centre[0, 0] > 0.99
    assert far_away[0, 0] < 1e-9
    moved = Kmers(1, -100, -20, centre=-30, width=10).count(encoded(sequence))
    assert moved.sum() < total


class TestFindStartCodon:
    def test_finds_the_common_column(self):
        codes = np.random.default_rng(1).integers(0, 4, size=(200, 50)).astype(np.uint8)
        codes[:195, 30:33] = [0, 3, 2]
        assert find_start_codon(codes) == 30

    def test_upstream_windows_have_none(self):
        codes = np.random.default_rng(1).integers(0, 4, size=(200, 50)).astype(np.uint8)
        assert find_start_codon(codes) is None
        codes[:, 47:50] = [0, 3, 2]  # an ATG with nothing after it says nothing about codons
        assert find_start_codon(codes) is None

    def test_short_or_empty_input_has_none(self):
        assert find_start_codon(np.zeros((5, 4), np.uint8)) is None
        assert find_start_codon(np.zeros((0, 40), np.uint8)) is None


def test_standardised_blocks_have_the_weights_asked_for():
    codes = np.random.default_rng(2).integers(0, 4, size=(300, 80)).astype(np.uint8)
    codes[:, :20] = 0
    blocks = (Kmers(3, -80), Kmers(1, -80, -60), Kmers(3, -30, canonical=False, step=3))
    standardiser = Standardiser(blocks, (0.6, 0.3, 0.1), codes)
    features = standardiser.features(codes)
    assert np.isfinite(features).all()
    assert features.mean(axis=0) == pytest.approx(0, abs=1e-5)
    squared = np.square(features).mean(axis=0)
    assert squared[:32].sum() == pytest.approx(0.6, rel=1e-4)
    assert squared[32:34].sum() == 0  # always 20 × A: constant in training
    assert squared[34:].sum() == pytest.approx(0.1, rel=1e-4)
