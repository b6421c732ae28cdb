"""Sequence weights against uneven sampling, and the effective number of sequences (Neff).

A row's weight is 1 / (number of rows, itself included, identical to it in at least 80 % of all match columns);
Neff is the sum of the weights. As in plmDCA and GREMLIN, and as the couplings of this package see an alignment,
every column counts and the gap is a state like the 20 residues: two gaps are identical, a gap and a residue are
not. Unknown letters count as gaps.

In how many columns many pairs of rows differ is counted on bit planes: a row of codes below 32 is kept as five
bit strings, bit `column % 64` of word `column // 64`. Two rows differ where any of their five bits does: a few
operations on 64 columns at a time, exact, in a memory that does not grow with the number of pairs, and some
ten times less work than products of one-hot matrices.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import GAP, UNKNOWN
from bioattn.alignments.choices import WEIGHT_IDENTITY
from bioattn.system.device import map_in_order
from bioattn.system.progress import SILENT, Progress

# Shape suffixes: S rows, R columns, W words of 64 columns, P bit planes, N and M the rows of a tile's two sides

NUM_PLANES = 5
WORD = 64
TILE_ROWS = 8
TILE_OTHERS = 4096
"""Buffers of a tile of this size (256 kB) stay in a core's own cache."""
_SPARSE_BELOW = 1 / 16
"""With a smaller part of its pairs left, a tile is finished pair by pair."""


def pack_mask(mask_SR: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Shape (W, S): each row's booleans as bits, the unused bits of the last word 0."""
    whole_words = np.pad(mask_SR, ((0, 0), (0, -mask_SR.shape[1] % WORD)))
    words = np.packbits(whole_words, axis=1, bitorder="little").view("<u8")
    return np.ascontiguousarray(words.astype(np.uint64, copy=False).T)


def pack_codes(codes_SR: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Shape (W, P, S): the bits of each code, which is below 32, plane by plane."""
    return np.stack([pack_mask((codes_SR >> plane & 1).astype(bool)) for plane in range(NUM_PLANES)], axis=1)


class TileCounter:
    """Counts for all pairs of at most `TILE_ROWS` × `TILE_OTHERS` rows; its buffers are used again and again.

    What a method returns is overwritten by the next call. One counter serves one thread.
    """

    def __init__(self) -> None:
        shape = (TILE_ROWS, TILE_OTHERS)
        self._words = np.empty(shape, np.uint64)
        self._more_words = np.empty(shape, np.uint64)
        self._bits = np.empty(shape, np.uint8)
        self._differences = np.empty(shape, np.uint32)
        self._shared = np.empty(shape, np.uint32)

    def differences_where_both(
        self,
        left_WPN: NDArray[np.uint64],
        right_WPM: NDArray[np.uint64],
        left_mask_WN: NDArray[np.uint64],
        right_mask_WM: NDArray[np.uint64],
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """For each pair, of the columns both masks cover: how many differ, and how many there are; (N, M)."""
        window = np.s_[: left_WPN.shape[2], : right_WPM.shape[2]]
        both, bits = self._more_words[window], self._bits[window]
        differences, shared = self._differences[window], self._shared[window]
        differences[:] = 0
        shared[:] = 0
        for word in range(left_WPN.shape[0]):
            different = self._different(left_WPN[word], right_WPM[word])
            np.bitwise_and(left_mask_WN[word, :, None], right_mask_WM[word], out=both)
            np.bitwise_and(different, both, out=different)
            np.add(differences, np.bitwise_count(different, out=bits), out=differences)
            np.add(shared, np.bitwise_count(both, out=bits), out=shared)
        return differences, shared

    def within(
        self, left_WPN: NDArray[np.uint64], right_WPM: NDArray[np.uint64], max_differences: int
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The pairs that differ in at most `max_differences` columns: positions on the left and on the right.

        After some words most pairs differ in more; once few are left only those are followed.
        """
        window = np.s_[: left_WPN.shape[2], : right_WPM.shape[2]]
        bits, differences = self._bits[window], self._differences[window]
        differences[:] = 0
        words = left_WPN.shape[0]
        for word in range(words):
            different = self._different(left_WPN[word], right_WPM[word])
            np.add(differences, np.bitwise_count(different, out=bits), out=differences)
            done = word + 1
            if done < words and done * WORD > max_differences:
                near = differences <= max_differences
                if np.count_nonzero(near) <= _SPARSE_BELOW * near.size:
                    pairs = np.nonzero(near)
                    return _follow(
                        left_WPN[done:], right_WPM[done:], pairs, differences[pairs], max_differences
                    )
        left, right = np.nonzero(differences <= max_differences)
        return left, right

    def _different(self, left_PN: NDArray[np.uint64], right_PM: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """One word of columns: the bits where any plane differs, (N, M)."""
        window = np.s_[: left_PN.shape[1], : right_PM.shape[1]]
        different, plane_differs = self._words[window], self._more_words[window]
        np.bitwise_xor(left_PN[0, :, None], right_PM[0], out=different)
        for plane in range(1, NUM_PLANES):
            np.bitwise_xor(left_PN[plane, :, None], right_PM[plane], out=plane_differs)
            np.bitwise_or(different, plane_differs, out=different)
        return different


def _follow(
    left_WPN: NDArray[np.uint64],
    right_WPM: NDArray[np.uint64],
    pairs: tuple[NDArray[np.intp], ...],
    differences: NDArray[np.uint32],
    max_differences: int,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs still within reach after the words given, which follow those of `differences`."""
    left, right = pairs
    for left_PN, right_PM in zip(left_WPN, right_WPM, strict=True):
        different = np.bitwise_or.reduce(left_PN[:, left] ^ right_PM[:, right], axis=0)
        differences = differences + np.bitwise_count(different)
        near = differences <= max_differences
        left, right, differences = left[near], right[near], differences[near]
        if not left.size:
            break
    return left, right


_BLOCK = 32 * TILE_ROWS
"""Rows whose neighbours one thread counts before it reports."""


def sequence_weights(
    codes: NDArray[np.uint8],
    min_identity: float = WEIGHT_IDENTITY,
    *,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> NDArray[np.float64]:
    """Weight of each row, shape (S,): 1 / (number of rows that share at least `min_identity` (0 to 1) of all
    columns with it). Their sum is Neff.

    codes: (S, R) 0..21 of `msa_codes`. Every pair is looked at once. Memory beyond five eighths of the alignment's
    size does not grow with the number of rows. threads: None takes those granted to the process; the result does
    not depend on them.
    """
    rows, columns = codes.shape
    max_differences = columns - math.ceil(min_identity * columns - 1e-9)
    packed_WPS = pack_codes(np.where(codes < UNKNOWN, codes, GAP))
    neighbours = np.ones(rows, np.int64)
    progress.begin("sequence weights (rows)", rows)
    starts = range(0, rows, _BLOCK)
    blocks = map_in_order(lambda start: _count_block(packed_WPS, start, max_differences), starts, threads)
    for start, counts in zip(starts, blocks, strict=True):
        neighbours += counts
        progress.advance(min(_BLOCK, rows - start))
    progress.end()
    return 1 / neighbours


def _count_block(packed_WPS: NDArray[np.uint64], start: int, max_differences: int) -> NDArray[np.int64]:
    """What the pairs of rows start, start + 1, … with all rows after them add to every row's neighbours."""
    rows = packed_WPS.shape[2]
    counter = TileCounter()
    neighbours = np.zeros(rows, np.int64)
    for first in range(start, min(start + _BLOCK, rows), TILE_ROWS):
        for other in range(first, rows, TILE_OTHERS):
            left, right = counter.within(
                packed_WPS[..., first : first + TILE_ROWS],
                packed_WPS[..., other : other + TILE_OTHERS],
                max_differences,
            )
            left, right = left + first, right + other
            later = right > left
            np.add.at(neighbours, left[later], 1)
            np.add.at(neighbours, right[later], 1)
    return neighbours


def filter_order(num_residues: NDArray[np.integer]) -> NDArray[np.intp]:
    """The rows in the order in which hhfilter looks at them, shape (S,).

    num_residues: (S,) residues of each row. Quicksort with the middle as pivot is not stable: among rows of equal
    number its swaps decide, and with them which of two similar rows is kept. They are made again here.
    """
    order = np.arange(len(num_residues))
    _sort_descending(order[1:], np.asarray(num_residues)[1:].copy())
    return order


def non_redundant(
    codes: NDArray[np.uint8], max_identity: float, order: NDArray[np.intp], *, progress: Progress = SILENT
) -> NDArray[np.intp]:
    """Rows of which no two are more than `max_identity` (0 to 1) identical, ascending; `order[0]` is kept.

    codes: (S, R) 0..21 of `msa_codes`. order: rows to choose from, in the order in which they are looked at
    (`filter_order`); the rest is left out. 1 keeps them all, as in hhfilter.
    """
    if max_identity >= 1 or not len(order):
        return np.sort(order)
    codes = codes[order]
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
