"""The bins of a map in order, those without a base left out.

Arrays (..., P); P bins.
"""

import numpy as np
from numpy.typing import NDArray


def bin_ranks(scores: NDArray[np.floating], known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Rank of each bin of a map (..., P), 0 = largest score; of equal ones the first; unknown bins last."""
    order = np.argsort(-np.where(known, scores, -np.inf), axis=-1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return ranks


def number_of_bins(known: NDArray[np.bool_], share: float) -> NDArray[np.int64]:
    """How many bins `share` of the known ones are: rounded, at least one. (..., P) → (...)"""
    return np.asarray(np.maximum(1, np.floor(share * known.sum(-1) + 0.5)), np.int64)


def top_bins(scores: NDArray[np.floating], known: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """(..., P): the known bins of largest score, `share` of them."""
    known = np.broadcast_to(known, scores.shape)
    top: NDArray[np.bool_] = bin_ranks(scores, known) < number_of_bins(known, share)[..., None]
    return top & known
