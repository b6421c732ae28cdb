"""From bins of positions to bases of a window, and back; sums along windows."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter1d

from bioattn.interpret.choices import Upsampling

SIGMA_IN_BINS = 0.5
"""Standard deviation of the Gaussian, in bin widths. Motifs straddle bin edges; so neighbours share them."""


def upsample(
    weights: ArrayLike,
    key_edges: Sequence[int] | NDArray[np.int64],
    length: int,
    method: Upsampling = Upsampling.NEAREST,
    receptive_field: int | None = None,
) -> NDArray[np.float64]:
    """Spread weights over bins, shape (..., K), to weights over the bases of a window, shape (..., length).

    key_edges: K + 1 increasing edges in bases from the window's first base, within 0..length; bin k is
    [key_edges[k], key_edges[k + 1]). A row keeps its sum: with `nearest` a bin's weight is shared equally by its
    bases; with `gaussian` that box is then smoothed by a Gaussian of half the bin's width, cut at 4 standard
    deviations and reflected at the window's ends; with `receptive-field` the weight is shared equally by all bases
    of the window that the bin's key sees: `receptive_field` bases centred on the bin (where that is half a base
    off, nearer to the window's start); a bin shorter than the widest is the right end of one of that width, as the
    first one of a window is. Bases outside all bins get 0 from `nearest`.

    >>> upsample([0.5, 0.25], [0, 2, 4], 4).tolist()
    [0.25, 0.25, 0.125, 0.125]
    """
    edges = tuple(int(edge) for edge in key_edges)
    weights_K = np.asarray(weights, dtype=np.float64)
    if method == "nearest":
        # The same as with the matrix, without a product that would take longer than all else in a track.
        widths = np.diff(edges)
        nearest = np.zeros((*weights_K.shape[:-1], length))
        nearest[..., edges[0] : edges[-1]] = np.repeat(weights_K / widths, widths, axis=-1)
        return nearest
    return weights_K @ upsampling_matrix(edges, length, method, receptive_field)


@functools.lru_cache(maxsize=8)
def upsampling_matrix(
    edges: tuple[int, ...], length: int, method: Upsampling, receptive_field: int | None = None
) -> NDArray[np.float64]:
    """What each bin gives to each base: shape (K, length), read-only. Arguments as of `upsample`."""
    matrix = np.zeros((len(edges) - 1, length))
    widest = int(np.diff(edges).max())
    for row, start, end in zip(matrix, edges[:-1], edges[1:], strict=True):
        if method == "receptive-field":
            assert receptive_field is not None
            first = (2 * end - widest - receptive_field) // 2
            first, last = max(first, 0), min(first + receptive_field, length)
            row[first:last] = 1 / (last - first)
            continue
        row[start:end] = 1 / (end - start)
        if method == "gaussian":
            row[:] = gaussian_filter1d(row, SIGMA_IN_BINS * (end - start), mode="reflect", truncate=4.0)
    matrix.flags.writeable = False
    return matrix


def bin_sums(values: NDArray[np.floating] | NDArray[np.bool_], key_edges: ArrayLike) -> NDArray[np.float64]:
    """Sum values over bases, shape (..., length), into bins, shape (..., K); edges as in `upsample`."""
    edges = np.asarray(key_edges, dtype=np.int64)
    before = running_sums(values)
    return before[..., edges[1:]] - before[..., edges[:-1]]


def running_sums(values: NDArray[np.generic]) -> NDArray[np.float64]:
    """Sums of what lies before each position, and of all, (..., L) → (..., L + 1)."""
    running = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=running[..., 1:])
    return running


def covered_bases(
    rows: ArrayLike, starts: ArrayLike, ends: ArrayLike, shape: tuple[int, int]
) -> NDArray[np.bool_]:
    """Mask (rows, length) of the bases of sites. shape: of the mask."""
    depth = np.zeros((shape[0], shape[1] + 1), dtype=np.int32)
    row_of = np.asarray(rows, dtype=np.int64)
    for places, step in ((starts, 1), (ends, -1)):
        np.add.at(depth, (row_of, np.asarray(places, dtype=np.int64)), step)
    return np.cumsum(depth, axis=1)[:, :-1] > 0
