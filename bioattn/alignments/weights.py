"""Sequence weights against uneven sampling, and the effective number of sequences (Neff).

A row's weight is 1 / (number of rows, itself included, identical to it in at least 80 % of all match columns);
Neff is the sum of the weights. As in plmDCA and GREMLIN, and as the couplings of this package see an alignment,
every column counts and the gap is a state like the 20 residues: two gaps are identical, a gap and a residue are
not. Letters that are no residue (J, O, X) count as gaps, B as D, Z as E, U as C.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import GAP, UNKNOWN, msa_codes
from bioattn.alignments.packed_rows import TILE_OTHERS, TILE_ROWS, TileCounter, pack_codes
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.threads import map_in_order

WEIGHT_IDENTITY = 0.8
_BLOCK = 32 * TILE_ROWS
"""Rows whose neighbours one thread counts before it reports."""


def sequence_weights(
    residues: NDArray[np.uint8],
    min_identity: float = WEIGHT_IDENTITY,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """Weight of each row, shape (S,); their sum is Neff.

    residues: (S, R) ASCII letters and gaps. Arguments as `count_neighbours`.
    """
    return 1 / count_neighbours(residues, min_identity, threads=threads, progress=progress)


def count_neighbours(
    residues: NDArray[np.uint8],
    min_identity: float = WEIGHT_IDENTITY,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.int64]:
    """Count the rows that share at least `min_identity` (0 to 1) of all columns with each row, itself included.

    Every pair is looked at once. Memory beyond five eighths of the alignment's size does not grow with the number
    of rows. threads: None takes those granted to the process; the result does not depend on them.
    """
    progress = progress or NoProgress()
    rows, columns = residues.shape
    max_differences = columns - math.ceil(min_identity * columns - 1e-9)
    states = msa_codes(residues)
    states[states == UNKNOWN] = GAP
    packed_WPS = pack_codes(states)
    neighbours = np.ones(rows, np.int64)
    progress.begin("sequence weights (rows)", rows)
    starts = range(0, rows, _BLOCK)
    blocks = map_in_order(lambda start: _count_block(packed_WPS, start, max_differences), starts, threads)
    for start, counts in zip(starts, blocks, strict=True):
        neighbours += counts
        progress.advance(min(_BLOCK, rows - start))
    progress.end()
    return neighbours


def _count_block(packed_WPS: NDArray[np.uint64], start: int, max_differences: int) -> NDArray[np.int64]:
    """What the pairs of rows start, start + 1, … with all rows after them add to every row's neighbours."""
    rows = packed_WPS.shape[2]
    counter = TileCounter()
    neighbours = np.zeros(rows, np.int64)
    for first, other in _tiles(start, min(start + _BLOCK, rows), rows):
        tile = np.s_[..., first : first + TILE_ROWS], np.s_[..., other : other + TILE_OTHERS]
        left, right = counter.within(packed_WPS[tile[0]], packed_WPS[tile[1]], max_differences)
        left, right = left + first, right + other
        later = right > left
        np.add.at(neighbours, left[later], 1)
        np.add.at(neighbours, right[later], 1)
    return neighbours


def _tiles(start: int, stop: int, rows: int) -> Iterator[tuple[int, int]]:
    for first in range(start, stop, TILE_ROWS):
        for other in range(first, rows, TILE_OTHERS):
            yield first, other
