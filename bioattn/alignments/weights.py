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
"""The numbers of a tile of this size (256 kB) stay in a core's own cache."""
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


def _different(left_PN: NDArray[np.uint64], right_PM: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One word of columns: the bits where any plane differs, (N, M)."""
    different: NDArray[np.uint64] = left_PN[0, :, None] ^ right_PM[0]
    for left_N, right_M in zip(left_PN[1:], right_PM[1:], strict=True):
        different |= left_N[:, None] ^ right_M
    return different


def _within(
    left_WPN: NDArray[np.uint64], right_WPM: NDArray[np.uint64], max_differences: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs that differ in at most `max_differences` columns: positions on the left and on the right.

    After some words most pairs differ in more; once few are left only those are followed.
    """
    differences = np.zeros((left_WPN.shape[2], right_WPM.shape[2]), np.uint32)
    done = 0
    for done, (left_PN, right_PM) in enumerate(zip(left_WPN, right_WPM, strict=True), start=1):
        differences += np.bitwise_count(_different(left_PN, right_PM))
        tells = done < len(left_WPN) and done * WORD > max_differences
        if tells and np.count_nonzero(differences <= max_differences) <= _SPARSE_BELOW * differences.size:
            break
    left, right = np.nonzero(differences <= max_differences)
    apart = differences[left, right]
    for left_PN, right_PM in zip(left_WPN[done:], right_WPM[done:], strict=True):
        apart = apart + np.bitwise_count(np.bitwise_or.reduce(left_PN[:, left] ^ right_PM[:, right], axis=0))
        kept = apart <= max_differences
        left, right, apart = left[kept], right[kept], apart[kept]
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
    neighbours = np.zeros(rows, np.int64)
    for first in range(start, min(start + _BLOCK, rows), TILE_ROWS):
        for other in range(first, rows, TILE_OTHERS):
            left, right = _within(
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
    # Kept rows move to the front, `count` of them: they never pass a row still to be looked at.
    packed_WPS, mask_WS = pack_codes(np.where(is_residue, codes, GAP)), pack_mask(is_residue)
    kept, count = np.zeros(len(order), np.intp), 0
    num_residues = np.count_nonzero(is_residue, axis=1)
    first = np.argmax(is_residue, axis=1)
    last = codes.shape[1] - 1 - np.argmax(is_residue[:, ::-1], axis=1)
    # In single precision, as hhfilter has it: rows on the threshold fall on the same side.
    min_different = np.float32(0.9999 - 0.01 * float(np.float32(100 * max_identity)))

    def too_close(
        rows: NDArray[np.intp], others: NDArray[np.intp], place: slice | NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """(rows, others): whether each pair is too similar; place: where the bits of `others` are."""
        different, shared = np.zeros((2, len(rows), len(others)), np.uint32)
        for left_PN, right_PM, mask_S in zip(
            packed_WPS[..., rows], packed_WPS[..., place], mask_WS, strict=True
        ):
            both = mask_S[rows, None] & mask_S[place]
            different += np.bitwise_count(_different(left_PN, right_PM) & both)
            shared += np.bitwise_count(both)
        close = different < min_different * shared.astype(np.float32)
        left, right = np.nonzero(close)
        row, other = rows[left], others[right]
        overlap = 1 + np.minimum(last[row], last[other]) - np.maximum(first[row], first[other])
        length = np.minimum(num_residues[row], overlap).astype(np.float32)
        enough = np.trunc((min_different * length).astype(np.float64) + 0.999)
        close[left, right] = different[left, right] < enough
        return close

    progress.begin("redundancy filter (rows)", len(order))
    for start in range(0, len(order), TILE_ROWS):
        candidates = tile = np.arange(start, min(start + TILE_ROWS, len(order)))
        for begin in range(0, count, TILE_OTHERS):
            against = slice(begin, min(begin + TILE_OTHERS, count))
            candidates = candidates[~too_close(candidates, kept[against], against).any(axis=1)]
        close = too_close(candidates, candidates, candidates)
        accepted: list[int] = []
        for place in range(len(candidates)):
            if not close[place, accepted].any():
                accepted.append(place)
        chosen = candidates[accepted]
        new = slice(count, count + len(chosen))
        packed_WPS[..., new], mask_WS[..., new] = packed_WPS[..., chosen], mask_WS[..., chosen]
        kept[new] = chosen
        count += len(chosen)
        progress.advance(len(tile))
    progress.end()
    return np.sort(order[kept[:count]])


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
