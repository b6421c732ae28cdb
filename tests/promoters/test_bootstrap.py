"""Bootstrap intervals against plain resampling loops and a case with a known width."""

import numpy as np
import pytest

from benchmarks.yeast_statistics import median_average_precision, median_gene_pearson, median_specific_pearson
from bioattn.promoters import response_metrics as metrics
from bioattn.promoters.response_metrics import fit_shared_axis, pearson, pearson_per_gene


@pytest.fixture
def tables():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(80, 5)) + generator.normal(size=(80, 1))
    good = truth + generator.normal(size=truth.shape)
    poor = truth + 4 * generator.normal(size=truth.shape)
    truth[generator.random(truth.shape) < 0.1] = np.nan
    return truth, good, poor


def test_every_statistic_equals_a_loop_over_resampled_tables(tables):
    truth, good, _ = tables
    axis = fit_shared_axis(truth)
    labels = np.where(np.isnan(truth), np.nan, truth > 0.5)
    statistics = {
        metrics.median_pearson: (truth, good),
        median_specific_pearson: (truth, good, axis),
        metrics.median_auroc: (labels, good),
        median_average_precision: (labels, good),
        median_gene_pearson: (truth, good),
    }
    weights = next(metrics.draws(80, 10, seed=1))
    for statistic, (first, second, *rest) in statistics.items():
        vectorised = statistic(first, second, *rest)(weights)
        for row, value in zip(weights.astype(int), vectorised, strict=True):
            genes = np.repeat(np.arange(80), row)
            looped = statistic(first[genes], second[genes], *rest)(np.ones((1, 80)))
            assert value == pytest.approx(looped[0], abs=1e-9), statistic.__name__


def test_the_value_is_that_of_the_genes_as_they_are(tables):
    truth, good, _ = tables
    found = metrics.estimate(metrics.median_pearson(truth, good), 80, resamples=200)
    assert found.value == pytest.approx(np.median(pearson(truth, good)[0]))
    assert found.low < found.value < found.high
    per_gene = metrics.estimate(median_gene_pearson(truth, good), 80, resamples=50)
    assert per_gene.value == pytest.approx(np.nanmedian(pearson_per_gene(truth, good)))


def test_the_interval_of_a_correlation_has_the_width_theory_gives():
    generator = np.random.default_rng(7)
    truth = generator.normal(size=(1000, 1))
    prediction = 0.5 * truth + np.sqrt(0.75) * generator.normal(size=(1000, 1))
    found = metrics.estimate(metrics.median_pearson(truth, prediction), 1000, resamples=2000)
    fisher = np.tanh(np.arctanh(found.value) + np.array([-1.96, 1.96]) / np.sqrt(997))
    assert (found.low, found.high) == pytest.approx(tuple(fisher), abs=0.012)


def test_a_paired_difference_is_narrower_than_the_two_intervals(tables):
    truth, good, poor = tables
    better, worse = metrics.median_pearson(truth, good), metrics.median_pearson(truth, poor)
    differences = metrics.resampled(better, 80, 300) - metrics.resampled(worse, 80, 300)
    assert metrics.interval(differences).low > 0
    assert not (metrics.resampled(better, 80, 50) - metrics.resampled(better, 80, 50)).any()
