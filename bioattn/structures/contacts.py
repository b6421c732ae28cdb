"""Distances and contacts between match columns of an alignment."""

import numpy as np
from numpy.typing import NDArray

CONTACT_DISTANCE = 8.0
"""Distance between CB atoms, in ångström, below which two residues are in contact."""
MIN_SEPARATION = 6
"""Least distance in columns of a counted pair: neighbours in the chain always touch."""


def distances(cb: NDArray[np.floating]) -> NDArray[np.float32]:
    """Distances (R, R) in ångström between coordinates (R, 3); NaN where either coordinate is NaN."""
    points = np.asarray(cb, np.float64)
    apart: NDArray[np.float32] = np.linalg.norm(points[:, None] - points[None], axis=-1).astype(np.float32)
    return apart


def contacts(
    cb: NDArray[np.floating], distance: float = CONTACT_DISTANCE, min_separation: int = MIN_SEPARATION
) -> NDArray[np.bool_]:
    """Contacts (R, R), symmetric: pairs closer than `distance` ångström, at least `min_separation` columns apart.

    cb: (R, 3), NaN where a column has no residue in the structure; its pairs are not contacts, see `known_pairs`.
    """
    near: NDArray[np.bool_] = distances(cb) < distance
    near &= known_pairs(cb, min_separation)
    return near


def known_pairs(cb: NDArray[np.floating], min_separation: int = MIN_SEPARATION) -> NDArray[np.bool_]:
    """Pairs (R, R) that can be scored: both columns in the structure, at least `min_separation` columns apart."""
    present = ~np.isnan(cb).any(axis=-1)
    column = np.arange(len(cb))
    apart: NDArray[np.bool_] = np.abs(column[:, None] - column[None]) >= min_separation
    apart &= present[:, None] & present[None]
    return apart
