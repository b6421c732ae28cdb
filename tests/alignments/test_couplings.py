"""Couplings against plain loops, and against what was planted."""

import math

import numpy as np
import pytest

from bioattn.alignments import couplings
from bioattn.errors import BioattnError


@pytest.fixture
def alignment():
    random = np.random.default_rng(3)
    states = random.integers(0, 21, (40, 6)).astype(np.uint8)
    states[:, 4] = states[:, 1]
    return states, random.uniform(0.1, 1, 40)


def loop_frequencies(states, weights):
    rows, columns = states.shape
    single, pair = np.zeros((columns, 21)), np.zeros((columns, 21, columns, 21))
    for s in range(rows):
        for i in range(columns):
            single[i, states[s, i]] += weights[s] / weights.sum()
            for j in range(columns):
                pair[i, states[s, i], j, states[s, j]] += weights[s] / weights.sum()
    return single, pair


def test_frequencies_are_those_of_loops(alignment, monkeypatch):
    monkeypatch.setattr(couplings, "_BLOCK", 7)
    for got, wanted in zip(couplings.pair_frequencies(*alignment), loop_frequencies(*alignment), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_mutual_information_is_that_of_loops(alignment):
    single, pair = loop_frequencies(*alignment)
    share, columns = 0.1, 6
    information = couplings.mutual_information(*couplings.pair_frequencies(*alignment), pseudocount=share)
    for i in range(columns):
        for j in range(columns):
            if i == j:
                assert information[i, j] == 0
                continue
            total = 0.0
            for a in range(21):
                for b in range(21):
                    p = (1 - share) * pair[i, a, j, b] + share / 441
                    q = ((1 - share) * single[i, a] + share / 21) * ((1 - share) * single[j, b] + share / 21)
                    total += p * math.log(p / q)
            assert information[i, j] == pytest.approx(total, abs=1e-5)


def test_average_product_correction_is_that_of_loops():
    values = np.random.default_rng(0).random((5, 5))
    values += values.T
    corrected = couplings.average_product_correction(values)
    others = {i: [values[i, k] for k in range(5) if k != i] for i in range(5)}
    every = np.mean([v for row in others.values() for v in row])
    for i in range(5):
        for j in range(5):
            wanted = 0 if i == j else values[i, j] - np.mean(others[i]) * np.mean(others[j]) / every
            assert corrected[i, j] == pytest.approx(wanted)


def test_mean_field_couplings_invert_the_covariance(alignment):
    single, pair = loop_frequencies(*alignment)
    single, pair = single / 2 + 0.5 / 21, pair / 2 + 0.5 / 441
    size = 6 * 20
    covariance = np.zeros((size, size))
    for i in range(6):
        for a in range(20):
            for j in range(6):
                for b in range(20):
                    both = pair[i, a, j, b] if i != j else (single[i, a] if a == b else 0.0)
                    covariance[i * 20 + a, j * 20 + b] = both - single[i, a] * single[j, b]
    found = couplings.mean_field_couplings(*couplings.pair_frequencies(*alignment)).reshape(size, size)
    np.testing.assert_allclose(-found @ covariance, np.eye(size), atol=1e-4)


def test_norms_are_those_of_the_zero_sum_gauge():
    blocks = np.random.default_rng(1).normal(size=(2, 20, 2, 20))
    full = np.zeros((21, 21))
    full[:20, :20] = blocks[0, :, 1]
    gauged = [
        [full[a, b] - full[:, b].mean() - full[a].mean() + full.mean() for b in range(21)] for a in range(21)
    ]
    assert couplings.coupling_norms(blocks)[0, 1] == pytest.approx(np.linalg.norm(gauged))


def test_shrunk_inverse_inverts_the_shrunk_covariance(alignment):
    single, pair = couplings.pair_frequencies(*alignment)
    covariance = (pair - np.einsum("ia,jb->iajb", single, single)).reshape(126, 126)
    shrunk = 0.7 * covariance + 0.3 * np.trace(covariance) / 126 * np.eye(126)
    inverse = couplings.shrunk_inverse_covariance(single, pair, shrinkage=0.3).reshape(126, 126)
    np.testing.assert_allclose(inverse @ shrunk, np.eye(126), atol=1e-6)


def test_identical_columns_score_highest(alignment):
    states, weights = alignment
    features = couplings.covariance_features(states, weights)
    assert features.shape == (6, 6, 3)
    for channel in np.moveaxis(features, -1, 0):
        np.testing.assert_allclose(channel, channel.T, atol=1e-4)
        assert np.unravel_index(channel.argmax(), channel.shape) in ((1, 4), (4, 1))
        assert (channel**2).sum() / 30 == pytest.approx(1, rel=1e-4)


def test_constant_alignment_gives_zeros():
    features = couplings.covariance_features(np.full((5, 4), 3, np.uint8))
    assert np.isfinite(features).all()


def test_too_many_columns_are_refused_with_an_estimate():
    with pytest.raises(BioattnError, match=r"1300 columns would need .* GB"):
        couplings.pair_frequencies(np.zeros((2, 1300), np.uint8))
