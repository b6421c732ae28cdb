"""Leakage figures against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION
from bioattn.promoters.homology import Links
from bioattn.promoters.leakage import measure_leakage, nearest_correlation, overlaps_any

INTERVAL = st.tuples(
    st.sampled_from(["I", "II", ""]), st.integers(-5, 50), st.integers(1, 20), st.sampled_from([0, 1, 2])
)


@given(st.lists(INTERVAL, min_size=1, max_size=30))
def test_overlaps_against_a_plain_loop(intervals):
    chrom = [interval[0] for interval in intervals]
    start = np.array([interval[1] for interval in intervals])
    end = start + np.array([interval[2] for interval in intervals])
    side = np.array([interval[3] for interval in intervals])
    found = overlaps_any(chrom, start, end, side == TEST, side == TRAIN)
    for i in range(len(intervals)):
        expected = side[i] == TEST and any(
            side[j] == TRAIN and chrom[i] and chrom[i] == chrom[j] and start[i] < end[j] and start[j] < end[i]
            for j in range(len(intervals))
        )
        assert found[i] == expected


def test_figures_count_each_promoter_once():
    side = np.array([TRAIN, TRAIN, TEST, TEST, VALIDATION, TEST], dtype=np.uint8)
    first, second = np.array([2, 2, 3, 3, 4]), np.array([0, 1, 0, 4, 2])
    links = Links(first, second, np.array([0.5, 0.2, 0.05, 0.3, 0.9], dtype=np.float32))
    place = np.arange(6) * 100
    figures = {
        (f.side, f.against): f
        for f in measure_leakage(side, links, ["I"] * 6, place, place + 101, paralogues=links)
    }
    test = figures["test", "train"]
    assert test.promoters == 3
    assert test.shared_kmers == pytest.approx(1 / 3)  # 2 does, twice; 3 shares too little
    assert test.overlapping == pytest.approx(1 / 3)  # 2 touches 1
    assert test.paralogues == pytest.approx(2 / 3)
    assert figures["test", "validation"].shared_kmers == pytest.approx(1 / 3)
    assert figures["validation", "train"].shared_kmers == 0
    assert "33.3 % share at least 10 % of their 14-mers with one, 33.3 % overlap one" in test.sentence()


def test_sides_without_promoters_or_places():
    links = Links(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    side = np.array([TRAIN, TEST], dtype=np.uint8)
    (only,) = measure_leakage(side, links, ["", ""], np.array([-1, -1]), np.array([-1, -1]))
    assert (only.overlapping, only.paralogues) == (None, None)
    assert only.side == "test"


def test_nearest_correlation_against_numpy():
    generator = np.random.default_rng(0)
    targets = generator.normal(size=(50, 6)).astype(np.float32)
    targets[:, 5] = 1  # constant
    rows = np.arange(10, 50)
    found = nearest_correlation(targets, rows, np.array([0, 1, 5]), np.array([2, 3, 4]))
    for position, treatment in enumerate([0, 1]):
        expected = max(
            np.corrcoef(targets[rows, treatment], targets[rows, other])[0, 1] for other in (2, 3, 4)
        )
        assert found[position] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(found[2])
    assert np.isnan(nearest_correlation(targets, rows, np.array([0]), np.array([], dtype=np.int64))).all()
