"""Background DNA has the statistics of its Markov chain."""

import numpy as np
import pytest

from bioattn.simulate.background import UNIFORM, YEAST_UPSTREAM


def test_order_2_transitions_are_those_of_the_table():
    codes = YEAST_UPSTREAM.sample(np.random.default_rng(0), 2_000, 500).astype(int)
    counts = np.zeros((16, 4))
    np.add.at(counts, (codes[:, :-2] * 4 + codes[:, 1:-1], codes[:, 2:]), 1)
    expected = np.array(YEAST_UPSTREAM.transitions)
    expected /= expected.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=1, keepdims=True)
    assert totals.min() > 20_000
    deviations = np.sqrt(expected * (1 - expected) / totals)
    assert np.all(np.abs(counts / totals - expected) < 5 * deviations)


def test_order_2_begins_in_its_stationary_state():
    """The first bases have the composition of the rest: the run-in is long enough."""
    codes = YEAST_UPSTREAM.sample(np.random.default_rng(1), 40_000, 60)
    first = np.bincount(codes[:, 0], minlength=4) / 40_000
    later = np.bincount(codes[:, 40:].ravel(), minlength=4) / codes[:, 40:].size
    assert np.abs(first - later).max() < 5 * np.sqrt(0.25 / 40_000)
    assert later[[0, 3]].sum() > 0.6  # as AT-rich as yeast


def test_order_0_is_independent_of_the_base_before():
    codes = UNIFORM.sample(np.random.default_rng(2), 1_000, 400).astype(int)
    pairs = np.bincount((codes[:, :-1] * 4 + codes[:, 1:]).ravel(), minlength=16) / codes[:, 1:].size
    assert np.abs(pairs - 1 / 16).max() < 0.001


@pytest.mark.parametrize("background", [UNIFORM, YEAST_UPSTREAM])
def test_same_stream_same_bases(background):
    first, again, other = (background.sample(np.random.default_rng(seed), 5, 50) for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
