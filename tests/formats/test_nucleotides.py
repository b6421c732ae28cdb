"""Shuffles that keep dinucleotides."""

from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from bioattn.formats.nucleotides import UNKNOWN, decode, dinucleotide_shuffled, encode


def pairs(codes):
    return Counter(pairwise(codes.tolist()))


@given(st.lists(st.integers(0, UNKNOWN), min_size=1, max_size=60), st.integers(0, 1000))
def test_keeps_dinucleotides_ends_and_n(bases, seed):
    codes = np.array([bases], dtype=np.uint8)
    shuffled = dinucleotide_shuffled(codes, np.random.default_rng(seed))[0]
    assert pairs(shuffled) == pairs(codes[0])
    np.testing.assert_array_equal(shuffled == UNKNOWN, codes[0] == UNKNOWN)
    assert (shuffled[0], shuffled[-1]) == (codes[0, 0], codes[0, -1])


def test_runs_between_n_are_shuffled_apart():
    codes = np.random.default_rng(0).integers(0, 4, (1, 200), dtype=np.uint8)
    codes[0, :20] = codes[0, 90] = codes[0, 92] = UNKNOWN
    (after,) = dinucleotide_shuffled(codes, np.random.default_rng(1))
    for part in (slice(20, 90), slice(91, 92), slice(93, 200)):
        assert pairs(after[part]) == pairs(codes[0, part])


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
