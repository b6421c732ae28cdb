"""Upsampling: sums kept, equal to a plain loop, exact small answers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.interpret.position_maps import bin_sums, upsample


def reflected(position, length):
    """Index of a position beyond the ends when the window is mirrored at them (… b a | a b … )."""
    while not 0 <= position < length:
        position = -position - 1 if position < 0 else 2 * length - 1 - position
    return position


def slow_upsample(weights, edges, length, method, receptive_field=None):
    """Plain loops: each bin's box, each of its bases spread by a cut Gaussian whose parts sum to 1."""
    out = [0.0] * length
    widest = max(end - start for start, end in itertools.pairwise(edges))
    for weight, start, end in zip(weights, edges[:-1], edges[1:], strict=True):
        width = end - start
        if method == "receptive-field":
            more = receptive_field - widest
            seen = range(end - widest - (more - more // 2), end + more // 2)
            inside = [base for base in seen if 0 <= base < length]
            for base in inside:
                out[base] += weight / len(inside)
            continue
        sigma = width / 2
        reach = int(4 * sigma + 0.5) if method == "gaussian" else 0
        kernel = {step: math.exp(-0.5 * (step / sigma) ** 2) for step in range(-reach, reach + 1)}
        total = sum(kernel.values())
        for base in range(start, end):
            for step, height in kernel.items():
                out[reflected(base + step, length)] += weight / width * height / total
    return out


@pytest.mark.parametrize(
    ("method", "field"),
    [("nearest", None), ("gaussian", None), *(("receptive-field", field) for field in (8, 15, 22, 99))],
)
@pytest.mark.parametrize(
    ("edges", "length"), [([0, 8, 16, 24, 32], 32), ([0, 4, 12, 20, 28], 28), ([2, 5, 12], 15), ([0, 4], 4)]
)
def test_equals_a_plain_loop(edges, length, method, field):
    weights = np.random.default_rng(0).random((3, 2, len(edges) - 1))
    fast = upsample(weights, edges, length, method, field)
    assert fast.shape == (3, 2, length)
    for index in np.ndindex(3, 2):
        assert np.allclose(
            fast[index], slow_upsample(weights[index].tolist(), edges, length, method, field), atol=1e-12
        )


@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.integers(0, 5), st.data())
def test_every_row_keeps_its_sum(widths, lead, data):
    edges = np.concatenate([[lead], lead + np.cumsum(widths)])
    weights = data.draw(st.lists(st.floats(0, 1), min_size=len(widths), max_size=len(widths)))
    length = int(edges[-1]) + data.draw(st.integers(0, 5))
    for method in ("nearest", "gaussian", "receptive-field"):
        assert upsample(weights, edges, length, method, 12).sum() == pytest.approx(sum(weights))


def test_bin_sums_undo_nearest():
    edges = [1, 4, 5, 9]
    weights = np.random.default_rng(0).random((4, 3))
    assert np.allclose(bin_sums(upsample(weights, edges, 12), edges), weights)
