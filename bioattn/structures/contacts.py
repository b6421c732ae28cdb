"""Distances and contacts between match columns of an alignment."""

import numpy as np
from numpy.typing import NDArray

CONTACT_DISTANCE = 8.0
"""Ångström between CB atoms, below which two residues are in contact."""
MIN_SEPARATION = 6
"""Columns apart, below which pairs are not counted: neighbours in the chain always touch."""


def distances(cb: NDArray[np.floating]) -> NDArray[np.float32]:
    """(R, R) distances in ångström between (R, 3) coordinates; NaN where either is NaN."""
    points = np.asarray(cb, np.float64)
    apart: NDArray[np.float32] = np.linalg.norm(points[:, None] - points[None], axis=-1).astype(np.float32)
    return apart


def contacts(
    cb: NDArray[np.floating], distance: float = CONTACT_DISTANCE, min_separation: int = MIN_SEPARATION
) -> NDArray[np.bool_]:
    """(R, R), symmetric: pairs nearer than `distance` ångström and at least `min_separation` columns apart.

    cb: (R, 3), NaN where a column has no residue in the structure; such pairs are no contacts, see `known_pairs`.
    """
    near: NDArray[np.bool_] = distances(cb) < distance
    near &= known_pairs(cb, min_separation)
    return near


def known_pairs(cb: NDArray[np.floating], min_separation: int = MIN_SEPARATION) -> NDArray[np.bool_]:
    """(R, R): pairs of columns, both in the structure, at least `min_separation` apart: those that are judged."""
    present = ~np.isnan(cb).any(axis=-1)
    column = np.arange(len(cb))
    apart: NDArray[np.bool_] = np.abs(column[:, None] - column[None]) >= min_separation
    apart &= present[:, None] & present[None]
    return apart
