"""Thinning an alignment by the identity between its rows, keeping the same rows as hhfilter -id.

As hhfilter goes through them: row 1 first, then by falling number of residues, rows of the same number in the
order in which its quicksort leaves them. A row is kept unless it is too close to one kept before: of the n columns
in which both have a residue, fewer than f·n differ, f being 0.9999 − the identity allowed. (hhfilter also demands
fewer than ⌊f·min(residues of the row, length of the overlap) + 0.999⌋, which differs by rounding only.)
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import GAP, UNKNOWN, msa_codes
from bioattn.alignments.weights import TILE_OTHERS, TILE_ROWS, TileCounter, pack_codes, pack_mask
from bioattn.system.progress import SILENT, Progress


def filter_order(num_residues: NDArray[np.integer]) -> NDArray[np.intp]:
    """The rows in the order in which hhfilter looks at them, shape (S,).

    num_residues: (S,) residues of each row. Quicksort with the middle as pivot is not stable: among rows of equal
    number its swaps decide, and with them which of two similar rows is kept. They are made again here.
    """
    order = np.arange(len(num_residues))
    _sort_descending(order[1:], np.asarray(num_residues)[1:].copy())
    return order


def non_redundant(
    residues: NDArray[np.uint8], max_identity: float, order: NDArray[np.intp], *, progress: Progress = SILENT
) -> NDArray[np.intp]:
    """Rows of which no two are more than `max_identity` (0 to 1) identical, ascending; `order[0]` is kept.

    residues: (S, R) ASCII letters and gaps. order: rows to choose from, in the order in which they are looked at
    (`filter_order`); the rest is left out. 1 keeps them all, as in hhfilter.
    """
    if max_identity >= 1 or not len(order):
        return np.sort(order)
    codes = msa_codes(residues[order])
    is_residue = codes < UNKNOWN
    kept = _Kept(
        pack_codes(np.where(is_residue, codes, GAP)), pack_mask(is_residue), is_residue, max_identity
    )
    progress.begin("redundancy filter (rows)", len(order))
    for start in range(0, len(order), TILE_ROWS):
        stop = min(start + TILE_ROWS, len(order))
        kept.take(start, stop)
        progress.advance(stop - start)
    progress.end()
    return np.sort(order[kept.rows()])


class _Kept:
    """The rows kept so far, as bit planes."""

    def __init__(
        self,
        packed_WPS: NDArray[np.uint64],
        mask_WS: NDArray[np.uint64],
        is_residue: NDArray[np.bool_],
        max_identity: float,
    ) -> None:
        self._packed, self._mask = packed_WPS, mask_WS
        self._num_residues = np.count_nonzero(is_residue, axis=1)
        columns = is_residue.shape[1]
        self._first = np.argmax(is_residue, axis=1)
        self._last = columns - 1 - np.argmax(is_residue[:, ::-1], axis=1)
        # In single precision, as hhfilter has it: rows on the threshold fall on the same side.
        self._min_different = np.float32(0.9999 - 0.01 * float(np.float32(100 * max_identity)))
        self._kept = np.zeros(len(is_residue), np.intp)
        self._count = 0
        self._counter = TileCounter()

    def rows(self) -> NDArray[np.intp]:
        """Positions kept."""
        return self._kept[: self._count]

    def take(self, start: int, stop: int) -> None:
        """Decide on the rows start..stop, at most a tile of them."""
        candidates = np.arange(start, stop)
        for first in range(0, self._count, TILE_OTHERS):
            against = slice(first, min(first + TILE_OTHERS, self._count))
            close = self._too_close(candidates, self._kept[against], against)
            candidates = candidates[~close.any(axis=1)]
            if not candidates.size:
                return
        close = self._too_close(candidates, candidates, None)
        accepted: list[int] = []
        for place in range(len(candidates)):
            if not close[place, accepted].any():
                accepted.append(place)
        chosen = candidates[accepted]
        new = slice(self._count, self._count + len(chosen))
        # Kept rows move to the front: they never pass a row still to be looked at.
        self._packed[..., new] = self._packed[..., chosen]
        self._mask[..., new] = self._mask[..., chosen]
        self._kept[new] = chosen
        self._count += len(chosen)

    def _too_close(
        self, rows: NDArray[np.intp], others: NDArray[np.intp], place: slice | None
    ) -> NDArray[np.bool_]:
        """(rows, others): whether each pair is too similar; place: where `others` stand if they are kept rows."""
        columns = others if place is None else place
        different, shared = self._counter.differences_where_both(
            self._packed[..., rows], self._packed[..., columns], self._mask[:, rows], self._mask[:, columns]
        )
        close = different < self._min_different * shared.astype(np.float32)
        left, right = np.nonzero(close)
        row, other = rows[left], others[right]
        overlap = 1 + np.minimum(self._last[row], self._last[other])
        overlap -= np.maximum(self._first[row], self._first[other])
        length = np.minimum(self._num_residues[row], overlap).astype(np.float32)
        enough = np.trunc((self._min_different * length).astype(np.float64) + 0.999)
        close[left, right] = different[left, right] < enough
        return close


def _sort_descending(order: NDArray[np.intp], values: NDArray[np.integer]) -> None:
    """Quicksort `order` and `values` together in place, by falling value, with the swaps of the textbook version.

    The pivot is the middle one, put first; whatever is greater is swapped, in turn, to the places after it.
    """

    def swap(one: int, other: int) -> None:
        order[one], order[other] = order[other], order[one]
        values[one], values[other] = values[other], values[one]

    ranges = [(0, len(order) - 1)]
    while ranges:
        left, right = ranges.pop()
        if left >= right:
            continue
        if values[left] == values[right] and np.all(values[left : right + 1] == values[left]):
            for place in range(left, right):
                swap(place, (place + right) // 2)
            continue
        swap(left, (left + right) // 2)
        last = left
        for greater in np.flatnonzero(values[left + 1 : right + 1] > values[left]) + left + 1:
            last += 1
            swap(last, int(greater))
        swap(left, last)
        ranges += [(left, last - 1), (last + 1, right)]
