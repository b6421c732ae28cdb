"""Map similarities against scipy and plain loops."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from bioattn.checks.deletion import map_spearman, mean_ignoring_nan, top_bins

PROMOTERS, TREATMENTS, BINS = 6, 3, 12


@pytest.fixture
def maps():
    """Two maps, some ties, and promoters of three lengths."""
    first, second = np.random.default_rng(0).integers(0, 6, (2, PROMOTERS, TREATMENTS, BINS)).astype(float)
    known = np.ones((PROMOTERS, BINS), bool)
    known[1, :4] = known[2, :10] = known[4, :4] = False
    first[3, 1] = 2.0  # a flat map
    return first, second, known


def test_spearman_is_scipys_on_the_known_bins(maps):
    first, second, known = maps
    found = map_spearman(first, second, known)
    for promoter in range(PROMOTERS):
        for treatment in range(TREATMENTS):
            bins = known[promoter]
            if bins.sum() < 3 or (promoter, treatment) == (3, 1):
                assert np.isnan(found[promoter, treatment])
                continue
            expected = spearmanr(
                first[promoter, treatment, bins], second[promoter, treatment, bins]
            ).statistic
            assert found[promoter, treatment] == pytest.approx(expected, abs=1e-12)


def test_unknown_bins_are_no_top():
    scores, known = np.array([3.0, 9.0, 3.0, 5.0]), np.array([True, False, True, True])
    np.testing.assert_array_equal(top_bins(scores, known, 0.5), [True, False, False, True])
    np.testing.assert_array_equal(top_bins(scores, known, 1.0), known)


def test_mean_without_nan():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_ignoring_nan(values, axis=1), [2.0, np.nan])
