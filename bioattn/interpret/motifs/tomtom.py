"""How alike two motifs are: TOMTOM's p-values (Gupta et al. 2007, doi:10.1186/gb-2007-8-2-r24).

Columns are compared by their Euclidean distance. A score is the median distance of a query's column to all columns
of the targets less the distance, so that columns without a partner count as much as a partner by chance.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 100
"""Scores of columns are rounded to this many steps of their range, as in MEME's tomtom."""


def tomtom(
    queries: Sequence[NDArray[np.float64]], targets: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """P-values (queries, targets): how often a target of that width would align as well by chance.

    A motif is a matrix of probabilities (width, 4) over A C G T. Alignments are all that share a column, on either
    strand of the target; by chance are columns drawn from those of all targets.
    """
    both = [*targets, *(target[::-1, ::-1] for target in targets)]
    widths = np.array([len(target) for target in both])
    columns = np.concatenate(both)
    holds = np.arange(widths.max()) < widths[:, None]
    p_values = np.empty((len(queries), len(targets)))
    for number, query in enumerate(queries):
        distances = np.linalg.norm(query[:, None] - columns, axis=2)
        scores = np.median(distances, axis=1, keepdims=True) - distances
        steps = np.rint(scores * (STEPS / (np.ptp(scores) or 1))).astype(np.int64)
        aligned = np.zeros((len(query), *holds.shape), dtype=np.int64)
        aligned[:, holds] = steps
        strands = _p_values(aligned, widths, _tails(steps), len(query) * int(steps.min()))
        least = strands.reshape(2, -1).min(axis=0)
        p_values[number] = least * (2 - least)  # of the better of two strands
    return p_values


def _tails(steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Chance (start, end, total) that the query's columns start..end, half-open, reach a total.

    steps: scores (query's columns, all columns of targets). Totals count from width * steps.min().
    """
    width, lowest = len(steps), int(steps.min())
    chances = [np.bincount(row - lowest) / row.size for row in steps]
    size = width * (int(steps.max()) - lowest) + 1
    tails = np.zeros((width, width + 1, size))
    for start in range(width):
        chance = np.ones(1)
        for end in range(start + 1, width + 1):
            chance = np.convolve(chance, chances[end - 1])
            offset = (start - end + width) * -lowest
            tails[start, end, :offset] = 1
            tails[start, end, offset : offset + chance.size] = np.minimum(chance[::-1].cumsum()[::-1], 1)
    return tails


def _p_values(
    aligned: NDArray[np.int64], widths: NDArray[np.int64], tails: NDArray[np.float64], lowest: int
) -> NDArray[np.float64]:
    """P-value of each target's best total over all shifts; aligned: scores (query column, target, its column)."""
    width, number, longest = aligned.shape
    shifts = range(1 - width, longest)
    totals = np.zeros((len(shifts), number), dtype=np.int64)
    for total, shift in zip(totals, shifts, strict=True):
        for row in range(max(0, -shift), min(width, longest - shift)):
            total += aligned[row, :, row + shift]
    start = np.maximum(0, -np.array(shifts))[:, None]
    end = np.minimum(width, widths - np.array(shifts)[:, None])
    overlaps = end > start
    best = np.where(overlaps, totals, lowest).max(axis=0)
    chances = np.where(overlaps, tails[start, np.maximum(end, 0), best - lowest], 0)
    with np.errstate(divide="ignore"):  # log(0) of what is certain
        none: NDArray[np.float64] = np.log1p(-chances).sum(axis=0)
    return -np.expm1(none)
