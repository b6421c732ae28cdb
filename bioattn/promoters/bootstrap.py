"""Intervals for metrics by resampling genes: one set of draws for all predictors, so differences are paired.

Genes are drawn with replacement; treatments stay (they are the ones asked about). Neighbouring or paralogous genes
are not independent, so the intervals are, if anything, a little narrow.

Shape suffixes: B resamples, G genes, T treatments.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from bioattn.promoters.response_metrics import Floats, auroc, checked, median, pearson

Statistic: TypeAlias = Callable[[Floats], Floats]
"""Weights, shape=(resamples, genes) → one value per resample."""

BLOCK = 8_000_000
"""Draws (resamples × genes) held at once."""


class Estimate(NamedTuple):
    """A value on the genes as they are, and its 95 % percentile interval."""

    value: float
    low: float
    high: float


def draws(num_genes: int, resamples: int = 1000, seed: int = 0) -> Iterator[Floats]:
    """Yield how often each gene is drawn, in blocks of rows: together shape=(resamples, genes), rows sum to genes.

    The draws depend on `num_genes` and `seed` alone, not on the size of the blocks.
    """
    generator = np.random.default_rng(seed)
    rows_per_block = max(1, BLOCK // max(1, num_genes))
    for start in range(0, resamples, rows_per_block):
        rows = min(rows_per_block, resamples - start)
        drawn = generator.integers(num_genes, size=(rows, num_genes)) + np.arange(rows)[:, None] * num_genes
        yield (
            np.bincount(drawn.ravel(), minlength=rows * num_genes).reshape(rows, num_genes).astype(np.float64)
        )


def resampled(statistic: Statistic, num_genes: int, resamples: int = 1000, seed: int = 0) -> Floats:
    """The statistic on the genes as they are (entry 0), then on every resample: shape=(1 + resamples,).

    Two statistics with the same number of genes and seed see the same draws: subtract to compare them.
    """
    values = [statistic(np.ones((1, num_genes)))]
    values += [statistic(weights_BG) for weights_BG in draws(num_genes, resamples, seed)]
    return np.concatenate(values)


def interval(values: Floats, level: float = 0.95) -> Estimate:
    """The estimate from `resampled` values (or the difference of two): resamples without a value are left out."""
    tail = 50.0 * (1.0 - level)
    finite = values[1:][~np.isnan(values[1:])]
    low, high = np.percentile(finite, [tail, 100.0 - tail]) if len(finite) else (np.nan, np.nan)
    return Estimate(float(values[0]), float(low), float(high))


def estimate(statistic: Statistic, num_genes: int, resamples: int = 1000, seed: int = 0) -> Estimate:
    """The statistic and its 95 % interval over genes."""
    return interval(resampled(statistic, num_genes, resamples, seed))


def median_pearson(truth: ArrayLike, prediction: ArrayLike) -> Statistic:
    """Median over treatments of Pearson r over genes."""
    truth_GT, prediction_GT = checked(truth, prediction)
    return lambda weights_BG: median(pearson(truth_GT, prediction_GT, weights_BG))


def median_auroc(labels: ArrayLike, scores: ArrayLike) -> Statistic:
    """Median over treatments of the area under the ROC curve."""
    labels_GT, scores_GT = checked(labels, scores)
    return lambda weights_BG: median(auroc(labels_GT, scores_GT, weights_BG))
