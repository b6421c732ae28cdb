"""The background keeps what it should keep and nothing else."""

from itertools import pairwise

import numpy as np

from bioattn.faithfulness.shuffling import dinucleotide_shuffled


def pairs(row):
    """Counts of neighbours, one by one."""
    counts = np.zeros((4, 4), int)
    for first, second in pairwise(row):
        counts[first, second] += 1
    return counts


def test_dinucleotides_and_both_ends_stay_and_the_order_does_not():
    rng = np.random.default_rng(0)
    codes = np.stack(
        [rng.choice(4, 300, p=weights) for weights in ([0.25] * 4, [0.7, 0.1, 0.1, 0.1], [0.5, 0, 0, 0.5])]
    ).astype(np.uint8)
    shuffled = dinucleotide_shuffled(codes, np.random.default_rng(1))
    for before, after in zip(codes, shuffled, strict=True):
        np.testing.assert_array_equal(pairs(after), pairs(before))
        assert (before[0], before[-1]) == (after[0], after[-1])
        assert (before != after).mean() > 0.3
    assert not np.array_equal(shuffled, dinucleotide_shuffled(codes, np.random.default_rng(2)))
    np.testing.assert_array_equal(shuffled, dinucleotide_shuffled(codes, np.random.default_rng(1)))


def test_n_stays_and_stretches_between_are_shuffled_apart():
    codes = np.random.default_rng(0).integers(0, 4, (1, 200), dtype=np.uint8)
    codes[0, :20] = codes[0, 90] = codes[0, 92] = 4
    (after,) = dinucleotide_shuffled(codes, np.random.default_rng(1))
    np.testing.assert_array_equal(after == 4, codes[0] == 4)
    for part in (slice(20, 90), slice(91, 92), slice(93, 200)):
        np.testing.assert_array_equal(pairs(after[part]), pairs(codes[0, part]))


def test_every_walk_is_possible():
    """By hand: AACAGA has these shuffles that keep its pairs, and no other."""
    text = "AACAGA"
    codes = np.array([["ACGT".index(base) for base in text]] * 400, np.uint8)
    found = {
        "".join("ACGT"[code] for code in row)
        for row in dinucleotide_shuffled(codes, np.random.default_rng(0))
    }
    assert found == {"AACAGA", "AAGACA", "ACAAGA", "AGAACA", "ACAGAA", "AGACAA"}
