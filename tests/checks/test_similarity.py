"""Map similarities against scipy and plain loops."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from bioattn.checks.deletion import (
    bin_ranks,
    map_spearman,
    mean_ignoring_nan,
    number_of_bins,
    top_bins,
    top_overlap,
)

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


def test_overlap_of_the_top_by_loops(maps):
    first, second, known = maps
    overlap, chance = top_overlap(first, second, known, 0.25)
    for promoter in range(PROMOTERS):
        bins = np.flatnonzero(known[promoter])
        number = max(1, int(0.25 * len(bins) + 0.5))
        assert chance[promoter] == pytest.approx(number / len(bins))
        for treatment in range(TREATMENTS):
            tops = [
                set(sorted(bins, key=lambda b, m=each[promoter, treatment]: (-m[b], b))[:number])
                for each in (first, second)
            ]
            assert overlap[promoter, treatment] == pytest.approx(len(tops[0] & tops[1]) / number)


def test_ranks_leave_unknown_bins_for_last():
    scores, known = np.array([3.0, 9.0, 3.0, 5.0]), np.array([True, False, True, True])
    np.testing.assert_array_equal(bin_ranks(scores, known), [1, 3, 2, 0])
    assert number_of_bins(known, 0.5) == 2
    np.testing.assert_array_equal(top_bins(scores, known, 0.5), [True, False, False, True])
    np.testing.assert_array_equal(top_bins(scores, known, 1.0), known)


def test_mean_without_nan():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_ignoring_nan(values, axis=1), [2.0, np.nan])
