"""Agreement of predictions with responses, and intervals over genes, by hand and against other libraries."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import average_precision_score, r2_score, roc_auc_score

from benchmarks.yeast_statistics import median_average_precision, median_gene_pearson, median_specific_pearson
from bioattn.promoters import response_metrics as metrics
from bioattn.promoters.response_metrics import fit_shared_axis, pearson, pearson_per_gene


@pytest.fixture
def tables():
    """Truth with a tenth missing, and a noisy prediction of it: 60 genes, 9 treatments of various scales."""
    generator = np.random.default_rng(1)
    truth = generator.normal(size=(60, 9)) * np.logspace(-2, 2, 9) + np.linspace(-50, 50, 9)
    prediction = 0.3 * truth + generator.normal(size=truth.shape) * np.logspace(-2, 2, 9)
    truth[generator.random(truth.shape) < 0.1] = np.nan
    return truth, prediction


def looped(function, truth, prediction):
    """`function` on the measured genes of each treatment."""
    values = []
    for column in range(truth.shape[1]):
        measured = ~np.isnan(truth[:, column])
        values.append(function(truth[measured, column], prediction[measured, column]))
    return np.array(values)


def test_regression_metrics_agree_with_scipy_and_sklearn(tables):
    truth, prediction = tables
    found = metrics.per_treatment(truth, prediction)
    assert found["pearson"] == pytest.approx(looped(lambda t, p: pearsonr(t, p).statistic, truth, prediction))
    assert found["spearman"] == pytest.approx(
        looped(lambda t, p: spearmanr(t, p).statistic, truth, prediction)
    )
    assert found["r_squared"] == pytest.approx(looped(r2_score, truth, prediction))
    assert found["mse"] == pytest.approx(looped(lambda t, p: np.mean((t - p) ** 2), truth, prediction))
    per_gene = looped(lambda t, p: pearsonr(t, p).statistic, truth.T, prediction.T)
    assert metrics.pearson_per_gene(truth, prediction) == pytest.approx(per_gene)


@pytest.mark.parametrize("decimals", [0, 1, 8], ids=["many ties", "ties", "no ties"])
def test_ranking_metrics_agree_with_sklearn(tables, decimals):
    truth, prediction = tables
    labels = np.where(np.isnan(truth), np.nan, truth > np.nanmedian(truth, axis=0))
    scores = np.round(prediction, decimals)
    assert metrics.auroc(labels, scores)[0] == pytest.approx(looped(roc_auc_score, labels, scores))
    assert metrics.average_precision(labels, scores)[0] == pytest.approx(
        looped(average_precision_score, labels, scores)
    )


def test_what_has_no_value_is_nan_and_a_constant_prediction_is_zero():
    truth = np.array([[1.0, 1.0, np.nan, 1.0], [2.0, 1.0, np.nan, np.nan], [4.0, 1.0, np.nan, np.nan]])
    prediction = np.array([[1.0, 3.0, 1.0, 1.0], [2.0, 1.0, 2.0, 2.0], [3.0, 2.0, 3.0, 3.0]])
    r = metrics.pearson(truth, prediction)[0]
    assert r[0] == pytest.approx(pearsonr([1, 2, 4], [1, 2, 3]).statistic)
    assert np.isnan(r[1:]).all()
    constant = np.full_like(prediction, 0.1) + np.array([[0.0], [1e-9], [-1e-9]])
    assert metrics.pearson(truth, constant)[0, 0] == 0.0
    assert metrics.auroc(truth > 1, np.zeros_like(truth))[0, 0] == 0.5
    assert np.isnan(metrics.auroc(np.ones((3, 1)), np.zeros((3, 1))))
    assert np.isnan(metrics.average_precision(np.zeros((3, 1)), np.zeros((3, 1))))


class TestSharedAxis:
    def test_without_missing_values_it_is_the_first_singular_vector(self):
        table = np.random.default_rng(3).normal(size=(40, 6)) @ np.diag([3, 1, 1, 2, 1, 0.5])
        axis = metrics.fit_shared_axis(table)
        first = np.linalg.svd(table - table.mean(axis=0))[2][0]
        assert abs(axis.loading @ first) == pytest.approx(1)
        assert axis.loading.sum() > 0

    def test_a_planted_axis_is_found_through_missing_values(self):
        generator = np.random.default_rng(4)
        loading = generator.normal(size=12)
        loading *= np.sign(loading.sum()) / np.linalg.norm(loading)
        scores = generator.normal(size=500)
        table = np.outer(scores, loading) + 2.0
        table[generator.random(table.shape) < 0.3] = np.nan
        axis = metrics.fit_shared_axis(table)
        assert axis.loading == pytest.approx(loading, abs=0.02)

    def test_the_specific_part_is_orthogonal_and_the_shared_part_scores_nothing(self, tables):
        truth, prediction = tables
        axis = metrics.fit_shared_axis(truth[:40])
        specific = axis.specific(truth)
        assert np.isnan(specific).tolist() == np.isnan(truth).tolist()
        along = np.nansum(specific * axis.loading, axis=1)
        assert along == pytest.approx(np.zeros(60), abs=1e-9)
        for gene in (0, 7):  # least squares on the measured entries, by an independent solver
            measured = ~np.isnan(truth[gene])
            score = np.linalg.lstsq(
                axis.loading[measured, None], (truth[gene] - axis.mean)[measured], rcond=None
            )[0]
            assert axis.scores(truth)[gene] == pytest.approx(score[0])
        shared_only = np.outer(np.arange(60.0), axis.loading) + axis.mean
        assert axis.specific(shared_only, ~np.isnan(truth))[~np.isnan(truth)] == pytest.approx(0, abs=1e-9)
        summary = metrics.summarise(truth, shared_only, axis)
        assert summary["specific_pearson"] == 0
        single = axis.specific(shared_only.astype(np.float32), ~np.isnan(truth))
        assert metrics.median(metrics.pearson(specific, single))[0] == 0
        assert metrics.summarise(truth, prediction, axis)["specific_pearson"] > 0.2


def test_the_pooled_correlation_is_over_all_measured_cells(tables):
    truth, prediction = tables
    known = ~np.isnan(truth)
    pooled = metrics.summarise(truth, prediction)["pooled_pearson"]
    assert pooled == pytest.approx(np.corrcoef(truth[known], prediction[known])[0, 1])


def test_a_summary_of_binary_targets_holds_the_two_areas(tables):
    truth, prediction = tables
    labels = np.where(np.isnan(truth), np.nan, truth > np.nanmean(truth, axis=0))
    summary = metrics.summarise(labels, prediction, task="binary")
    assert summary["auroc"] == pytest.approx(np.median(looped(roc_auc_score, labels, prediction)))
    assert set(summary) == {"auroc", "auprc"}


@pytest.fixture
def two_predictions():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(80, 5)) + generator.normal(size=(80, 1))
    good = truth + generator.normal(size=truth.shape)
    poor = truth + 4 * generator.normal(size=truth.shape)
    truth[generator.random(truth.shape) < 0.1] = np.nan
    return truth, good, poor


def test_every_statistic_equals_a_loop_over_resampled_tables(two_predictions):
    truth, good, _ = two_predictions
    axis = fit_shared_axis(truth)
    labels = np.where(np.isnan(truth), np.nan, truth > 0.5)
    statistics = {
        metrics.median_pearson: (truth, good),
        median_specific_pearson: (truth, good, axis),
        metrics.median_auroc: (labels, good),
        median_average_precision: (labels, good),
        median_gene_pearson: (truth, good),
    }
    drawn = []
    metrics.resampled(lambda weights: drawn.append(weights) or weights[:, 0], 80, 10, seed=1)
    weights = drawn[1]
    for statistic, (first, second, *rest) in statistics.items():
        vectorised = statistic(first, second, *rest)(weights)
        for row, value in zip(weights.astype(int), vectorised, strict=True):
            genes = np.repeat(np.arange(80), row)
            looped = statistic(first[genes], second[genes], *rest)(np.ones((1, 80)))
            assert value == pytest.approx(looped[0], abs=1e-9), statistic.__name__


def test_the_value_is_that_of_the_genes_as_they_are(two_predictions):
    truth, good, _ = two_predictions
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


def test_a_paired_difference_is_narrower_than_the_two_intervals(two_predictions):
    truth, good, poor = two_predictions
    better, worse = metrics.median_pearson(truth, good), metrics.median_pearson(truth, poor)
    differences = metrics.resampled(better, 80, 300) - metrics.resampled(worse, 80, 300)
    assert metrics.interval(differences).low > 0
    assert not (metrics.resampled(better, 80, 50) - metrics.resampled(better, 80, 50)).any()
