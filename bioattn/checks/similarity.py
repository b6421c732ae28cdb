"""Similarity of two maps of the same promoter and treatment, and ranking of their bins (unknown bins come last).

Shape suffixes: B promoters, T treatments, P bins.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bioattn.inference.runner import Floats


def bin_ranks(scores: NDArray[np.floating], known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rank of each bin of a map (..., P): 0 = largest score; ties rank by position; unknown bins come last."""
    order = np.argsort(-np.where(known, scores, -np.inf), axis=-1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return ranks


def number_of_bins(known: NDArray[np.bool_], share: float) -> NDArray[np.int64]:
    """Number of bins in `share` of the known bins, rounded, at least one: (..., P) → (...)."""
    return np.asarray(np.maximum(1, np.floor(share * known.sum(-1) + 0.5)), np.int64)


def top_bins(scores: NDArray[np.floating], known: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """Mask (..., P) of the `share` of known bins with the largest scores."""
    known = np.broadcast_to(known, scores.shape)
    top: NDArray[np.bool_] = bin_ranks(scores, known) < number_of_bins(known, share)[..., None]
    return top & known


MIN_BINS = 3
"""Least number of bins for a rank correlation."""


def map_spearman(
    first_BTP: NDArray[np.floating], second_BTP: NDArray[np.floating], known_BP: NDArray[np.bool_]
) -> Floats:
    """Spearman rank correlation over the known bins of each map, (B, T); NaN where a map is constant."""
    result_BT = np.full(first_BTP.shape[:2], np.nan)
    kinds, kind_B = np.unique(known_BP, axis=0, return_inverse=True)
    for number, bins in enumerate(kinds):
        if bins.sum() < MIN_BINS:
            continue
        rows = np.flatnonzero(kind_B.ravel() == number)
        first, second = (rankdata(maps[rows][..., bins], axis=-1) for maps in (first_BTP, second_BTP))
        first -= first.mean(-1, keepdims=True)
        second -= second.mean(-1, keepdims=True)
        spread = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
        with np.errstate(invalid="ignore"):
            result_BT[rows] = np.where(spread > 0, (first * second).sum(-1) / spread, np.nan)
    return result_BT


def top_overlap(
    first_BTP: NDArray[np.floating],
    second_BTP: NDArray[np.floating],
    known_BP: NDArray[np.bool_],
    share: float,
) -> tuple[Floats, Floats]:
    """Of the top `share` of a map's known bins (at least one), how many are also among the other's, (B, T); and
    what chance gives, (B,)."""
    number_B = number_of_bins(known_BP, share)
    both_BTP = top_bins(first_BTP, known_BP[:, None], share) & top_bins(second_BTP, known_BP[:, None], share)
    return both_BTP.sum(-1) / number_B[:, None], number_B / np.maximum(known_BP.sum(1), 1)


def mean_ignoring_nan(values: Floats, axis: int | None = None) -> Floats:
    """Mean over entries that are not NaN; NaN where there is none."""
    valid = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Floats = np.where(valid, values, 0.0).sum(axis) / valid.sum(axis)
    return mean
