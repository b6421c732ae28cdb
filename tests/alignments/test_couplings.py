"""Couplings against plain loops, and against what was planted."""

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
    single, pairs = couplings.pair_frequencies(*alignment)
    wanted, wanted_pairs = loop_frequencies(*alignment)
    np.testing.assert_allclose(single, wanted, atol=1e-6)
    below = np.tril(np.ones((126, 126), bool))
    np.testing.assert_allclose(pairs[below], wanted_pairs.reshape(126, 126)[below], atol=1e-6)


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


def plain_features(states, weights):
    """The three maps by their formulas in float64, one pair of columns at a time where blocks are read."""
    rows, columns = states.shape
    one_hot = np.eye(21)[states].reshape(rows, -1)
    share = weights / weights.sum()
    single, pair = share @ one_hot, (one_hot * share[:, None]).T @ one_hot
    covariance = pair - np.outer(single, single)
    shrunk = 0.9 * covariance + 0.1 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    own = np.kron(np.eye(columns), np.ones((21, 21))) > 0

    def mixed(pseudocount):
        one = (1 - pseudocount) * single + pseudocount / 21
        two = (1 - pseudocount) * pair + pseudocount / 441
        return one, np.where(own, np.diag(one), two)

    one, two = mixed(0.5)
    without_gap = np.arange(21 * columns) % 21 != 20
    mean_field = -np.linalg.inv((two - np.outer(one, one))[np.ix_(without_gap, without_gap)])
    inverse = np.linalg.inv(shrunk)
    light, light_pairs = mixed(couplings.LIGHT_PSEUDOCOUNT)
    maps = np.zeros((3, columns, columns))
    for i in range(columns):
        for j in range(columns):
            if i == j:
                continue
            block = np.zeros((21, 21))
            block[:20, :20] = mean_field[i * 20 : i * 20 + 20, j * 20 : j * 20 + 20]
            block = block - block.mean(0) - block.mean(1)[:, None] + block.mean()
            maps[0, i, j] = np.linalg.norm(block)
            a, b = slice(i * 21, i * 21 + 21), slice(j * 21, j * 21 + 21)
            both = light_pairs[a, b]
            maps[1, i, j] = (both * np.log(both / np.outer(light[a], light[b]))).sum()
            maps[2, i, j] = np.linalg.norm(inverse[a, b][:20, :20])
    features = np.stack([couplings.average_product_correction(each) for each in maps], axis=-1)
    return features / np.sqrt((features**2).sum((0, 1)) / (columns * (columns - 1)))


def test_features_are_those_of_the_plain_formulas(alignment):
    np.testing.assert_allclose(
        couplings.covariance_features(*alignment), plain_features(*alignment), atol=2e-4
    )


def test_constant_alignment_gives_zeros():
    features = couplings.covariance_features(np.full((5, 4), 3, np.uint8))
    assert np.isfinite(features).all()


def test_what_memory_cannot_hold_is_refused_with_an_estimate(monkeypatch):
    monkeypatch.setattr(couplings, "free_memory", lambda: 2_000_000_000)
    with pytest.raises(BioattnError, match=r"1,300 columns need about 3\.\d+ GB of memory, 2 GB are free"):
        couplings.pair_frequencies(np.zeros((2, 1300), np.uint8))
