"""How well predicted responses agree with measured ones: tables of genes × treatments, NaN = not measured.

Every metric is one number per treatment (or per gene) over the entries that were measured; tables are summarised
by the median, so that a few odd arrays do not carry the result. Metrics that enter intervals take optional
weights (resamples, genes): how often each gene was drawn, one row per resample. The point estimate is a single row
of ones, a bootstrap many rows of counts, and both run through the same lines.

Conventions, the same throughout:
- truth has shape (genes, treatments), NaN where not measured; the prediction has the same shape, and a NaN in it
  where truth was measured is no answer: the metrics it enters are NaN.
- A constant prediction has correlation 0 and AUROC 0.5, since it explains nothing (constant: it varies by less
  than a ten-millionth of itself or of the truth). A constant truth has none: NaN.
- What cannot be computed (fewer than two genes, one class only) is NaN; the summaries leave NaN out.

Shape suffixes: B resamples, G genes, T treatments, K distinct scores in ascending order.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bioattn.choices import Task
from bioattn.errors import BioattnError

Floats: TypeAlias = NDArray[np.float64]

# A column varying by less than this share of its largest value is constant: float32 predictions carry such noise.
CONSTANT = 1e-7
# What is left of a float32 prediction after subtracting nearly all of it.
ROUNDING = 1e-6
# The same as CONSTANT for a variance computed as a difference of two sums of squares.
CONSTANT_VARIANCE = 1e-13


def checked(truth: ArrayLike, prediction: ArrayLike) -> tuple[Floats, Floats]:
    """Both tables (genes, treatments) as float64."""
    return np.asarray(truth, np.float64), np.asarray(prediction, np.float64)


def pearson(truth: ArrayLike, prediction: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Pearson correlation over genes, per treatment: shape=(resamples, treatments), one row without weights."""
    truth_GT, prediction_GT = checked(truth, prediction)
    measured_GT = ~np.isnan(truth_GT)
    truth_GT = _centred(truth_GT, measured_GT)
    prediction_GT = _centred(prediction_GT, measured_GT, CONSTANT * _largest(truth_GT))
    weights_BG = np.ones((1, len(truth_GT))) if weights is None else np.asarray(weights, np.float64)
    count_BT = weights_BG @ measured_GT.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_truth_BT = weights_BG @ truth_GT / count_BT
        mean_prediction_BT = weights_BG @ prediction_GT / count_BT
        variance_truth_BT = weights_BG @ truth_GT**2 / count_BT - mean_truth_BT**2
        variance_prediction_BT = weights_BG @ prediction_GT**2 / count_BT - mean_prediction_BT**2
        covariance_BT = (
            weights_BG @ (truth_GT * prediction_GT) / count_BT - mean_truth_BT * mean_prediction_BT
        )
        r_BT = covariance_BT / np.sqrt(variance_truth_BT * variance_prediction_BT)
    # A resample that drew one gene only is flat up to rounding.
    truth_is_flat_BT = variance_truth_BT <= CONSTANT_VARIANCE * _largest(truth_GT) ** 2
    prediction_is_flat_BT = variance_prediction_BT <= CONSTANT_VARIANCE * _largest(prediction_GT) ** 2
    r_BT = np.where(prediction_is_flat_BT, 0.0, np.clip(r_BT, -1.0, 1.0))
    return np.where(truth_is_flat_BT | (count_BT < 2), np.nan, r_BT)


def _centred(table_GT: Floats, measured_GT: NDArray[np.bool_], least_T: Floats | float = 0.0) -> Floats:
    """The table less its column means over measured entries; 0 where not measured and in constant columns.

    Constant is what varies by no more than `least_T`, or by a rounding error of its own values.
    """
    filled_GT = np.where(measured_GT, table_GT, 0.0)
    mean_T = filled_GT.sum(axis=0) / np.maximum(measured_GT.sum(axis=0), 1)
    centred_GT = np.where(measured_GT, filled_GT - mean_T, 0.0)
    centred_GT[:, _largest(centred_GT) <= np.maximum(CONSTANT * _largest(filled_GT), least_T)] = 0.0
    return centred_GT


def _largest(table_GT: Floats) -> Floats:
    return np.asarray(np.abs(table_GT).max(axis=0, initial=0.0), np.float64)


def pearson_per_gene(truth: ArrayLike, prediction: ArrayLike) -> Floats:
    """Pearson correlation over treatments, per gene: shape=(genes,); NaN over two, where every line fits."""
    truth_GT, prediction_GT = checked(truth, prediction)
    r_G: Floats = pearson(truth_GT.T, prediction_GT.T)[0]
    return np.where((~np.isnan(truth_GT)).sum(axis=1) > 2, r_G, np.nan)


def spearman(truth: ArrayLike, prediction: ArrayLike) -> Floats:
    """Spearman rank correlation over genes, per treatment, ties given their mean rank: shape=(treatments,)."""
    import pandas as pd

    truth_GT, prediction_GT = checked(truth, prediction)
    measured_GT = ~np.isnan(truth_GT)
    unanswered_T = (measured_GT & np.isnan(prediction_GT)).any(axis=0)
    prediction_GT = np.where(measured_GT, prediction_GT, np.nan)
    truth_rank_GT, prediction_rank_GT = (
        pd.DataFrame(table_GT).rank().to_numpy() for table_GT in (truth_GT, prediction_GT)
    )
    return np.where(unanswered_T, np.nan, pearson(truth_rank_GT, prediction_rank_GT)[0])


def mean_squared_error(truth: ArrayLike, prediction: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Mean squared error over genes, per treatment: shape=(resamples, treatments), one row without weights."""
    truth_GT, prediction_GT = checked(truth, prediction)
    measured_GT = ~np.isnan(truth_GT)
    weights_BG = np.ones((1, len(truth_GT))) if weights is None else np.asarray(weights, np.float64)
    squared_GT = np.where(measured_GT, np.square(truth_GT - prediction_GT), 0.0)
    with np.errstate(invalid="ignore"):
        error_BT: Floats = weights_BG @ squared_GT / (weights_BG @ measured_GT.astype(np.float64))
    return error_BT


def r_squared(truth: ArrayLike, prediction: ArrayLike) -> Floats:
    """Coefficient of determination, 1 − SSE/SST, per treatment: shape=(treatments,).

    SST is taken around the mean of the very genes evaluated, so the training mean scores 0 or a little less.
    """
    truth_GT, prediction_GT = checked(truth, prediction)
    measured_GT = ~np.isnan(truth_GT)
    spread_T = np.square(_centred(truth_GT, measured_GT)).sum(axis=0) / np.maximum(measured_GT.sum(axis=0), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained_T: Floats = 1.0 - mean_squared_error(truth_GT, prediction_GT)[0] / spread_T
    return np.where(spread_T > 0.0, explained_T, np.nan)


def auroc(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Area under the ROC curve over genes, per treatment; ties count one half.

    labels: 1 positive, 0 negative, NaN not measured. Returns shape=(resamples, treatments); NaN with one class.
    """

    def area(positive_BK: Floats, negative_BK: Floats) -> Floats:
        beaten_BK = negative_BK.cumsum(axis=1) - 0.5 * negative_BK
        pairs_B = positive_BK.sum(axis=1) * negative_BK.sum(axis=1)
        share_B: Floats = np.einsum("bk,bk->b", positive_BK, beaten_BK) / pairs_B
        return share_B

    return _area_per_treatment(labels, scores, weights, area)


def average_precision(labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Area under the precision–recall curve by steps (as scikit-learn's average precision), per treatment.

    Arguments, shapes and NaN as in `auroc`. A score without information gets the share of positives.
    """

    def area(positive_BK: Floats, negative_BK: Floats) -> Floats:
        positive_BK, negative_BK = positive_BK[:, ::-1], negative_BK[:, ::-1]
        found_BK = positive_BK.cumsum(axis=1)
        called_BK = found_BK + negative_BK.cumsum(axis=1)
        precision_BK = found_BK / np.where(called_BK > 0.0, called_BK, 1.0)
        area_B: Floats = np.einsum("bk,bk->b", positive_BK, precision_BK) / found_BK[:, -1]
        return np.where(called_BK[:, -1] > found_BK[:, -1], area_B, np.nan)

    return _area_per_treatment(labels, scores, weights, area)


def _area_per_treatment(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None, area: Callable[[Floats, Floats], Floats]
) -> Floats:
    """Run `area` on the weights of positives and negatives at each distinct score, ascending, per treatment."""
    labels_GT, scores_GT = checked(labels, scores)
    weights_BG = np.ones((1, len(labels_GT))) if weights is None else np.asarray(weights, np.float64)
    areas_BT = np.full((len(weights_BG), labels_GT.shape[1]), np.nan)
    for treatment in range(labels_GT.shape[1]):
        measured = np.flatnonzero(~np.isnan(labels_GT[:, treatment]))
        score_G = scores_GT[measured, treatment]
        if len(measured) < 2 or np.isnan(score_G).any():
            continue
        order = np.argsort(score_G, kind="stable")
        positive_G = labels_GT[measured[order], treatment]
        weights_ordered_BG = weights_BG[:, measured[order]]
        first = np.flatnonzero(np.diff(score_G[order], prepend=-np.inf) != 0.0)
        positive_BK = np.add.reduceat(weights_ordered_BG * positive_G, first, axis=1)
        negative_BK = np.add.reduceat(weights_ordered_BG * (1.0 - positive_G), first, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            areas_BT[:, treatment] = area(positive_BK, negative_BK)
    return areas_BT


class SharedAxis(NamedTuple):
    """The direction in treatment space along which training genes vary most: what most treatments do alike."""

    mean: Floats
    """Training mean of each treatment, shape=(treatments,); 0 where a treatment has no training value."""
    loading: Floats
    """First principal component, unit length, largest entry sum positive; 0 where no training value."""

    def scores(self, responses: ArrayLike) -> Floats:
        """Least-squares coordinate of each gene along the axis from its measured entries: shape=(genes,).

        A gene with nothing measured (or only where the loading is 0) has coordinate 0.
        """
        deviation_GT = np.asarray(responses, np.float64) - self.mean
        measured_GT = ~np.isnan(deviation_GT)
        length_G = measured_GT @ self.loading**2
        along_G = np.where(measured_GT, deviation_GT, 0.0) @ self.loading
        return np.divide(along_G, length_G, out=np.zeros_like(along_G), where=length_G > 0.0)

    def specific(self, responses: ArrayLike, measured: ArrayLike | None = None) -> Floats:
        """`responses` less the training mean and the part along the axis: the treatment-specific part.

        Each gene's vector is made orthogonal to the axis by least squares on its measured entries. `measured`
        (boolean, same shape; default: where `responses` is not NaN) says which: give a prediction the mask of its
        truth, so that both lose the same direction of the same space. Unmeasured entries come back as NaN.
        """
        responses_GT = np.asarray(responses, np.float64)
        if measured is not None:
            responses_GT = np.where(np.asarray(measured, np.bool_), responses_GT, np.nan)
        deviation_GT = responses_GT - self.mean
        specific_GT: Floats = deviation_GT - np.outer(self.scores(responses_GT), self.loading)
        # What is left of a gene that lies on the axis is rounding; it must not be read as a response.
        size_G = np.abs(np.where(np.isnan(responses_GT), 0.0, responses_GT)).max(axis=1, initial=0.0)
        specific_GT[np.abs(specific_GT) <= ROUNDING * size_G[:, None]] = 0.0
        return specific_GT


MAX_ITERATIONS = 500
TOLERANCE = 1e-9


def fit_shared_axis(train_targets: ArrayLike) -> SharedAxis:
    """First principal component over treatments of training targets with missing entries.

    Alternating least squares on the measured entries only (no imputation); without missing values it is the power
    iteration and gives the first right singular vector of the centred table. Starts from the per-gene mean, so it
    is deterministic.

    train_targets: shape=(genes, treatments), NaN = not measured.
    Raises: BioattnError when nothing is measured or nothing varies.
    """
    targets_GT = np.asarray(train_targets, np.float64)
    measured_GT = ~np.isnan(targets_GT)
    if not measured_GT.any():
        raise BioattnError("the training targets hold no measured value; the shared axis cannot be fitted")
    mean_T = np.where(measured_GT, targets_GT, 0.0).sum(axis=0) / np.maximum(measured_GT.sum(axis=0), 1)
    deviation_GT = np.where(measured_GT, targets_GT - mean_T, 0.0)
    if not deviation_GT.any():
        raise BioattnError("the training targets do not vary between genes; the shared axis cannot be fitted")
    mask_GT = measured_GT.astype(np.float64)
    loading_T = deviation_GT.T @ (deviation_GT.sum(axis=1) / np.maximum(mask_GT.sum(axis=1), 1.0))
    if np.linalg.norm(loading_T) <= CONSTANT * np.linalg.norm(deviation_GT) ** 2:  # genes' means are all 0
        loading_T = deviation_GT[np.argmax(np.square(deviation_GT).sum(axis=1))]
    loading_T = loading_T / np.linalg.norm(loading_T)
    for _ in range(MAX_ITERATIONS):
        score_G = _ratio(deviation_GT @ loading_T, mask_GT @ loading_T**2)
        updated_T = _ratio(score_G @ deviation_GT, score_G**2 @ mask_GT)
        updated_T /= np.linalg.norm(updated_T)
        change = np.abs(updated_T - loading_T).max()
        loading_T = updated_T
        if change < TOLERANCE:
            break
    return SharedAxis(mean_T, loading_T if loading_T.sum() >= 0.0 else -loading_T)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0.0)


def median(values_BN: Floats) -> Floats:
    """Median of each row leaving NaN out, NaN for a row of NaN: shape=(resamples,)."""
    result_B = np.full(len(values_BN), np.nan)
    answered_B = ~np.isnan(values_BN).all(axis=1)
    result_B[answered_B] = np.nanmedian(values_BN[answered_B], axis=1)
    return result_B


def per_treatment(truth: ArrayLike, prediction: ArrayLike, task: Task = Task.REGRESSION) -> dict[str, Floats]:
    """The metrics of each treatment by name, each shape=(treatments,).

    regression: pearson, spearman, r_squared, mse. binary (prediction = logits or probabilities): auroc, auprc.
    """
    if task == "binary":
        return {"auroc": auroc(truth, prediction)[0], "auprc": average_precision(truth, prediction)[0]}
    return {
        "pearson": pearson(truth, prediction)[0],
        "spearman": spearman(truth, prediction),
        "r_squared": r_squared(truth, prediction),
        "mse": mean_squared_error(truth, prediction)[0],
    }


def known_mean(values: ArrayLike) -> float:
    """The mean of the values that are not NaN; NaN where none is."""
    found = np.asarray(values, np.float64)
    return float("nan") if np.isnan(found).all() else float(np.nanmean(found))


def summarise(
    truth: ArrayLike, prediction: ArrayLike, axis: SharedAxis | None = None, task: Task = Task.REGRESSION
) -> dict[str, float]:
    """One number per metric: the median over treatments of `per_treatment`, and for regression also
    `pooled_pearson` (over all measured cells at once, means of treatments included), `gene_pearson` (median over
    genes of three measured treatments or more) and, with the shared axis of the training targets,
    `specific_pearson` (median over treatments after the axis is taken out of truth and prediction).
    """
    summary = {
        name: float(median(values[None])[0])
        for name, values in per_treatment(truth, prediction, task).items()
    }
    if task == "binary":
        return summary
    cells = [np.asarray(each, np.float64).reshape(-1, 1) for each in (truth, prediction)]
    summary["pooled_pearson"] = float(pearson(*cells)[0, 0])
    per_gene = pearson_per_gene(truth, prediction)
    if not np.isnan(per_gene).all():
        summary["gene_pearson"] = float(median(per_gene[None])[0])
    if axis is not None:
        measured = ~np.isnan(np.asarray(truth, np.float64))
        specific = pearson(axis.specific(truth), axis.specific(prediction, measured))
        summary["specific_pearson"] = float(median(specific)[0])
    return summary


Statistic: TypeAlias = Callable[[Floats], Floats]
"""Weights, shape=(resamples, genes) → one value per resample."""

BLOCK = 8_000_000
"""Draws (resamples × genes) held at once."""


class Estimate(NamedTuple):
    """A value on the genes as they are, and its 95 % percentile interval."""

    value: float
    low: float
    high: float


def resampled(statistic: Statistic, num_genes: int, resamples: int = 1000, seed: int = 0) -> Floats:
    """The statistic on the genes as they are (entry 0), then on every resample: shape=(1 + resamples,).

    Two statistics with the same number of genes and seed see the same draws, whatever the size of the blocks:
    subtract to compare them.
    """
    values = [statistic(np.ones((1, num_genes)))]
    generator = np.random.default_rng(seed)
    rows_per_block = max(1, BLOCK // max(1, num_genes))
    for start in range(0, resamples, rows_per_block):
        shape = (min(rows_per_block, resamples - start), num_genes)
        drawn = generator.integers(num_genes, size=shape) + np.arange(shape[0])[:, None] * num_genes
        weights_BG = np.bincount(drawn.ravel(), minlength=shape[0] * num_genes).reshape(shape)
        values.append(statistic(weights_BG.astype(np.float64)))
    return np.concatenate(values)


def interval(values: Floats) -> Estimate:
    """The estimate from `resampled` values (or the difference of two): resamples without a value are left out."""
    tail = 50.0 * (1.0 - 0.95)
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
