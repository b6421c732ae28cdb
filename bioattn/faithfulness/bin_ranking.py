"""Ranking of the bins of a map; bins without a base come last.

Arrays (..., P); P bins.
"""

import numpy as np
from numpy.typing import NDArray


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
