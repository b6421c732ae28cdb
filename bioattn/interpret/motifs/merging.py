"""Motifs that were found again and again, under several treatments, are one motif: matrices aligned and merged.

Two matrices are as alike as the cosine of their information-weighted columns in the best alignment without gaps,
on either strand; columns that stand alone count against it. Average linkage joins matrices until clusters are
less alike than `SAME`.

Shapes: N matrices, W positions, K positions of the merged matrix.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from bioattn.formats.meme import UNIFORM_BACKGROUND, position_information
from bioattn.interpret.motifs.discovery import trim_vague_ends

SAME = 0.85
"""Matrices this much alike on average are one motif."""


class MergedMotif(NamedTuple):
    """A motif of one or more matrices."""

    probabilities: NDArray[np.float64]
    """(K, 4)."""
    sites: int
    members: tuple[int, ...]
    """Numbers of the matrices, that of most sites first."""


def merge_motifs(matrices: Sequence[NDArray[np.float64]], sites: Sequence[int]) -> list[MergedMotif]:
    """Cluster matrices (W, 4) made of so many sites each; the motif of most sites first."""
    if not matrices:
        return []
    weighted = [information_weighted(matrix) for matrix in matrices]
    labels = np.zeros(1, dtype=np.int32)
    if len(weighted) > 1:
        distance = 1 - similarities(weighted)
        np.fill_diagonal(distance, 0)
        labels = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - SAME, "distance")
    merged = []
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label).tolist(), key=lambda n: (-sites[n], n))
        probabilities = _merged(
            [matrices[n] for n in members], [weighted[n] for n in members], [sites[n] for n in members]
        )
        merged.append(MergedMotif(probabilities, sum(sites[n] for n in members), tuple(members)))
    return sorted(merged, key=lambda motif: (-motif.sites, motif.members))


def information_weighted(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities less the background, times the position's bits, divided by the root of the sum of squares."""
    weighted = (matrix - UNIFORM_BACKGROUND) * position_information(matrix)[:, None]
    norm = float(np.sqrt(np.sum(weighted**2)))
    return weighted / max(norm, np.finfo(np.float64).tiny)


def best_alignment(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, int, bool]:
    """Where `second` lies on `first`: cosine, offset of its first position, and whether turned round.

    Both as of `information_weighted`. Ties go to the strand as it stands and the smaller offset.
    """
    best = (-np.inf, 0, False)
    for turned in (False, True):
        other = second[::-1, ::-1] if turned else second
        for offset in range(1 - len(other), len(first)):
            low, high = max(0, offset), min(len(first), offset + len(other))
            value = float(np.sum(first[low:high] * other[low - offset : high - offset]))
            if value > best[0] + 1e-12:
                best = value, offset, turned
    return best


def similarities(weighted: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Cosine of every two matrices in their best alignment, (N, N); 0 where side by side is best."""
    number, width = len(weighted), max(len(matrix) for matrix in weighted)
    plain, turned = np.zeros((number, width, 4)), np.zeros((number, width, 4))
    for row, matrix in enumerate(weighted):
        plain[row, : len(matrix)] = matrix
        turned[row, width - len(matrix) :] = matrix[::-1, ::-1]
    best = np.zeros((number, number))
    for shift in range(1 - width, width):
        low, high = max(0, shift), min(width, width + shift)
        here = plain[:, low:high].reshape(number, -1)
        for other in (plain, turned):
            there = other[:, low - shift : high - shift].reshape(number, -1)
            np.maximum(best, here @ there.T, out=best)
    return np.minimum(np.maximum(best, best.T), 1.0)


def _merged(
    matrices: Sequence[NDArray[np.float64]], weighted: Sequence[NDArray[np.float64]], sites: Sequence[int]
) -> NDArray[np.float64]:
    """The mean of matrices weighted by their sites, aligned to the first; positions nobody knows are uniform."""
    margin = max(len(matrix) for matrix in matrices)
    counts = np.zeros((len(matrices[0]) + 2 * margin, 4))
    for matrix, columns, number in zip(matrices, weighted, sites, strict=True):
        _, offset, turned = best_alignment(weighted[0], columns)
        placed = np.tile(np.array(UNIFORM_BACKGROUND), (len(counts), 1))
        placed[margin + offset : margin + offset + len(matrix)] = matrix[::-1, ::-1] if turned else matrix
        counts += number * placed
    mean = counts / counts.sum(axis=1, keepdims=True)
    trimmed = trim_vague_ends(mean, 0.0)
    return np.asarray(matrices[0]) if trimmed is None else trimmed
