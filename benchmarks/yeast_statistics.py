"""Statistics of the yeast benchmark beside those of `bioattn.promoters.response_metrics`, resampled over genes.

Shape suffixes: B resamples, G genes, T treatments.
"""

import numpy as np
from numpy.typing import ArrayLike

from bioattn.promoters.response_metrics import (
    Floats,
    SharedAxis,
    Statistic,
    average_precision,
    checked,
    median,
    median_pearson,
    pearson_per_gene,
)


def median_specific_pearson(truth: ArrayLike, prediction: ArrayLike, axis: SharedAxis) -> Statistic:
    """The same after the shared axis of the training targets is taken out of truth and prediction."""
    truth_GT, prediction_GT = checked(truth, prediction)
    return median_pearson(axis.specific(truth_GT), axis.specific(prediction_GT, ~np.isnan(truth_GT)))


def median_gene_pearson(truth: ArrayLike, prediction: ArrayLike) -> Statistic:
    """Median over genes of Pearson r over treatments."""
    r_G = pearson_per_gene(truth, prediction)
    return lambda weights_BG: weighted_median(r_G, weights_BG)


def median_average_precision(labels: ArrayLike, scores: ArrayLike) -> Statistic:
    """Median over treatments of average precision."""
    labels_GT, scores_GT = checked(labels, scores)
    return lambda weights_BG: median(average_precision(labels_GT, scores_GT, weights_BG))


def weighted_median(values: Floats, weights_BG: Floats) -> Floats:
    """Median of `values` (shape=(genes,)) with each repeated by its count: shape=(resamples,); NaN left out."""
    kept = np.flatnonzero(~np.isnan(values))
    kept = kept[np.argsort(values[kept], kind="stable")]
    if len(kept) == 0:
        return np.full(len(weights_BG), np.nan)
    reached_BG = weights_BG[:, kept].cumsum(axis=1)
    total_B = reached_BG[:, -1:]
    lower_B = (reached_BG >= np.floor((total_B + 1) / 2)).argmax(axis=1)
    upper_B = (reached_BG >= np.floor(total_B / 2) + 1).argmax(axis=1)
    middle_B: Floats = (values[kept[lower_B]] + values[kept[upper_B]]) / 2
    return np.where(total_B[:, 0] > 0, middle_B, np.nan)


def large_responses(log2_fold_change: ArrayLike, threshold: float = 1.0) -> Floats:
    """1 where |log2 fold change| > `threshold`, 0 elsewhere, NaN where not measured: labels for `auroc`.

    Targets that were standardised must be put back on the log2 scale first; score a prediction by its absolute
    value on that scale.
    """
    values = np.asarray(log2_fold_change, np.float64)
    return np.where(np.isnan(values), np.nan, (np.abs(values) > threshold).astype(np.float64))
