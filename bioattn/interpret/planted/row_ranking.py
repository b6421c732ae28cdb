"""Ranking metrics of many rows at once: each row is a sequence, each column a base.

`training.promoter.metrics` ranks genes within a treatment; here thousands of promoters are each ranked alone.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def row_auroc(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], negative: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Area under the ROC curve of every row, shape (rows,); ties count one half.

    scores, positive, negative: (rows, columns). `negative` says which columns count against the positive ones (by
    default all others); columns that are neither are left out. NaN for a row without both classes.
    """
    if negative is None:
        negative = ~positive
    if np.any(positive & negative):
        raise ValueError("a position cannot be positive and negative")
    used = np.where(positive | negative, scores, -np.inf)
    left_out = (~(positive | negative)).sum(axis=1)
    ranks = rankdata(used, axis=1, method="average") - left_out[:, None]
    positives, negatives = positive.sum(axis=1), negative.sum(axis=1)
    # Mann-Whitney: the rank sum of the positives less the least it can be, over the number of pairs.
    rank_sums = np.where(positive, ranks, 0.0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        area: NDArray[np.float64] = (rank_sums - positives * (positives + 1) / 2) / (positives * negatives)
    return np.where((positives > 0) & (negatives > 0), area, np.nan)


def row_average_precision(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Average precision (area under the precision-recall steps) of every row, shape (rows,).

    The sum over distinct scores, from the largest, of precision times the gain in recall, as in scikit-learn; tied
    positions enter together. NaN for a row without positives.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    sorted_scores = np.take_along_axis(scores, order, axis=1)
    hits = np.cumsum(np.take_along_axis(positive, order, axis=1), axis=1)
    last_of_tie = np.ones(scores.shape, dtype=np.bool_)
    last_of_tie[:, :-1] = sorted_scores[:, 1:] != sorted_scores[:, :-1]
    precision = hits / np.arange(1, scores.shape[1] + 1)
    # Positives found at earlier distinct scores: the running count, held at the last end of a tie.
    held = np.maximum.accumulate(np.where(last_of_tie, hits, 0), axis=1)
    earlier = np.concatenate([np.zeros_like(held[:, :1]), held[:, :-1]], axis=1)
    gained = np.where(last_of_tie, hits - earlier, 0)
    total = positive.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        area: NDArray[np.float64] = (precision * gained).sum(axis=1) / total
    return np.where(total > 0, area, np.nan)
