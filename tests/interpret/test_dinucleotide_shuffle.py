"""Shuffles that keep dinucleotides."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.interpret.dinucleotide_shuffle import dinucleotide_shuffled


def pairs(codes: np.ndarray) -> Counter[tuple[int, int]]:
    return Counter(zip(codes[:-1].tolist(), codes[1:].tolist(), strict=True))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 1000))
def test_keeps_dinucleotides_ends_and_n(bases: list[int], seed: int) -> None:
    codes = np.array([bases], dtype=np.uint8)
    shuffled = dinucleotide_shuffled(codes, np.random.default_rng(seed))[0]
    assert pairs(shuffled) == pairs(codes[0])
    np.testing.assert_array_equal(shuffled == 4, codes[0] == 4)
    assert (shuffled[0], shuffled[-1]) == (codes[0, 0], codes[0, -1])


def test_all_orders_are_equally_likely() -> None:
    """Of ACAGACAT there are as many Eulerian paths with each order of the pieces between the As."""
    codes = np.tile(np.array([0, 1, 0, 2, 0, 1, 0, 3], dtype=np.uint8), (6000, 1))
    found = Counter(map(bytes, dinucleotide_shuffled(codes, np.random.default_rng(0))))
    assert len(found) == 3
    for count in found.values():
        assert count / 6000 == pytest.approx(1 / 3, abs=0.03)
