"""Contacts between match columns of an alignment, and the precision of ranked pairs among the L/5 and the L best.

L is the number of columns with a residue in the structure; pairs are judged when both have one and they are at
least six columns apart; a contact is a CB-CB distance below 8 Å.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import CONTACT_DISTANCE, MIN_SEPARATION


def distances(cb: NDArray[np.floating]) -> NDArray[np.float32]:
    """Distances (R, R) in ångström between coordinates (R, 3); NaN where either coordinate is NaN."""
    points = np.asarray(cb, np.float64)
    apart: NDArray[np.float32] = np.linalg.norm(points[:, None] - points[None], axis=-1).astype(np.float32)
    return apart


def contacts(cb: NDArray[np.floating], min_separation: int = MIN_SEPARATION) -> NDArray[np.bool_]:
    """Contacts (R, R), symmetric: closer than `CONTACT_DISTANCE`, at least `min_separation` columns apart.

    cb: (R, 3), NaN where a column has no residue in the structure; its pairs are not contacts, see `known_pairs`.
    """
    near: NDArray[np.bool_] = distances(cb) < CONTACT_DISTANCE
    near &= known_pairs(cb, min_separation)
    return near


def known_pairs(cb: NDArray[np.floating], min_separation: int = MIN_SEPARATION) -> NDArray[np.bool_]:
    """Pairs (R, R) that can be scored: both columns in the structure, at least `min_separation` columns apart."""
    present = ~np.isnan(cb).any(axis=-1)
    column = np.arange(len(cb))
    apart: NDArray[np.bool_] = np.abs(column[:, None] - column[None]) >= min_separation
    apart &= present[:, None] & present[None]
    return apart


FIGURES = ("P@L/5", "P@L")
"""Precision among the L/5 best pairs (rounded down, at least one) and among the L best."""


def contact_scores(
    scores: NDArray[np.floating], cb: NDArray[np.floating], columns: NDArray[np.integer] | None = None
) -> dict[str, float]:
    """`FIGURES` of a symmetric map (larger = more likely in contact) against coordinates (R, 3), NaN = unknown.

    columns: the match columns, out of R, of the rows and columns of the map; None = all. Pairs of other columns
    are ranked last. Equal scores rank in the order of i, then j. A protein without pairs to judge gives NaN.
    """
    first, second = np.nonzero(np.triu(known_pairs(cb)))
    if not len(first):
        return dict.fromkeys(FIGURES, float("nan"))
    whole = np.full((len(cb), len(cb)), -np.inf)
    places = np.arange(len(cb)) if columns is None else columns
    whole[np.ix_(places, places)] = scores
    order = np.argsort(-whole[first, second], kind="stable")
    right = contacts(cb)[first, second][order]
    length = int((~np.isnan(cb).any(axis=-1)).sum())
    return {
        name: float(right[:n].mean()) for name, n in zip(FIGURES, (max(1, length // 5), length), strict=True)
    }
