"""Signals at sites less a matched background, by promoter; shuffled motifs as sums, so that memory stays flat.

- `attention`: log2 of the attention on a base over what it would be if all known bases of the promoter had the
  same; mean over heads, at least 2^−10. Unsigned: attention lies somewhere or not.
- `value-weighted attention`: the same of attention times the norm of the value it multiplies, each row to sum 1.
- `contributions`: what attention to a bin adds to the response, shared equally by the bases of the bin. Signed.
- `attribution`: what the base that is there adds to the response. Signed.

Several files of one kind (seeds, say) are averaged. A signal is computed for *quantities*, weighted sums over the
treatments of the files: a treatment, a mean over a group, a difference.

Every window of W bases of every promoter belongs to a stratum: its distance from the promoters' right end (where
those of different lengths are aligned) in steps of `POSITION_STEP` bases, and how many of its W bases are G or C.
The background of a window is the mean over all windows of its stratum; where there are fewer than `LEAST_WINDOWS`
of them, over those of the nearest G+C counts as well. Windows with an N belong nowhere; which others count is the
caller's choice.

Shape suffixes: B promoters, T treatments, Q quantities, K bins, L bases, S strata, W bases of a window, N windows
of a promoter, G promoters with sites.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.motifs.expected_motifs import Coverage, ExpectedSites, union
from bioattn.interpret.position_maps import running_sums
from bioattn.interpret.promoter_maps import PromoterMaps
from bioattn.system.progress import Progress

BLOCK_BYTES = 1 << 26
"""Memory of a block of promoters, as read and as a signal."""
LEAST_LOG_DENSITY = -10.0
"""Attention below a thousandth of the uniform counts as that: the logarithm of nothing says nothing."""


def signal_blocks(
    maps: Sequence[PromoterMaps], mixing_QT: NDArray[np.float64], codes: NDArray[np.uint8]
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """(Which promoters, their (B, Q, L) signal), in order: the mean over files of one quantity.

    codes: (promoters, L) of all, 4 for N.
    """
    first = maps[0]
    used_T = np.flatnonzero(np.any(mixing_QT != 0, axis=0))
    names = [first.treatments[number] for number in used_T]
    heads = max(len(site.heads) for each in maps for site in each.sites)
    bytes_each = 8 * max(heads * len(names) * len(first.widths), len(mixing_QT) * first.window_length)
    step = max(1, BLOCK_BYTES // bytes_each)
    for start in range(0, len(codes), step):
        part = slice(start, min(start + step, len(codes)))
        known_B = np.maximum((codes[part] < UNKNOWN).sum(axis=1), 1)
        total_BQL = np.zeros((part.stop - part.start, len(mixing_QT), first.window_length))
        for of_file in maps:
            values_BTK = of_file.block(part, names) / of_file.widths
            if not of_file.signed:
                density_BTK = values_BTK * known_B[:, None, None]
                values_BTK = np.log2(np.maximum(density_BTK, 2.0**LEAST_LOG_DENSITY))
            mixed_BQK = np.einsum("qt,btk->bqk", mixing_QT[:, used_T], values_BTK, optimize=True)
            total_BQL += of_file.bases(mixed_BQK * of_file.widths, Upsampling.NEAREST)
        yield part, total_BQL / len(maps)


def require_same(what: str, lists: Sequence[tuple[Path, list[str]]]) -> list[str]:
    """Check that all files list the same in the same order, and return it."""
    (first, expected), *others = lists
    for path, names in others:
        if names != expected:
            raise BioattnError(
                f"{path}: its {what} are not those of {first}, in the same order; only results over the same "
                f"{what} can be scored together"
            )
    return expected


POSITION_STEP = 8
LEAST_WINDOWS = 20


class MatchedBackground:
    """Averages a signal over the windows of each stratum, block by block; windows have one width."""

    def __init__(self, width: int, length: int, num_quantities: int) -> None:
        self.width = width
        self.num_positions = (length - width) // POSITION_STEP + 1
        self._length = length
        size = self.num_positions * (width + 1)
        self.counts_S: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        self._sums_SQ = np.zeros((size, num_quantities))

    def strata(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(B, N) the stratum of each window by its first base; −1 for windows with an N."""
        strong_BN = window_sums(((codes_BL == 1) | (codes_BL == 2))[:, None], self.width)[:, 0]
        unknown_BN = window_sums((codes_BL >= UNKNOWN)[:, None], self.width)[:, 0]
        last = self._length - self.width
        position_N = (last - np.arange(last + 1)) // POSITION_STEP
        strata_BN = position_N * (self.width + 1) + strong_BN.astype(np.int64)
        strata_BN[unknown_BN > 0] = -1
        return strata_BN

    def add(self, windows_BQN: NDArray[np.floating], strata_BN: NDArray[np.int64]) -> None:
        """Add promoters: the signal of their windows and the strata of these (−1: not counted)."""
        known = strata_BN >= 0
        strata = strata_BN[known]
        self.counts_S += np.bincount(strata, minlength=self.counts_S.size)
        for number in range(self._sums_SQ.shape[1]):
            values = windows_BQN[:, number][known]
            self._sums_SQ[:, number] += np.bincount(strata, weights=values, minlength=self.counts_S.size)

    def means(self) -> NDArray[np.float64]:
        """(S, Q) background by stratum; NaN where not even neighbours were seen."""
        counts = self.counts_S.reshape(self.num_positions, self.width + 1)
        sums = self._sums_SQ.reshape(self.num_positions, self.width + 1, -1)
        means = np.full(sums.shape, np.nan)
        for strong in range(self.width + 1):
            near = np.argsort(np.abs(np.arange(self.width + 1) - strong), kind="stable")
            total, collected = np.zeros(self.num_positions), np.zeros((self.num_positions, sums.shape[2]))
            for step in near:
                short = total < LEAST_WINDOWS
                total += np.where(short, counts[:, step], 0)
                collected += np.where(short[:, None], sums[:, step], 0.0)
            seen = total > 0
            means[seen, strong] = collected[seen] / total[seen, None]
        return means.reshape(self.counts_S.size, -1)


def window_sums(values_BQL: NDArray[np.generic], width: int) -> NDArray[np.float64]:
    """(B, Q, L) → (B, Q, N) sums over windows of `width` bases, by their first base."""
    running = running_sums(values_BQL)
    return running[..., width:] - running[..., :-width]


@dataclass(frozen=True, slots=True)
class SiteDifferences:
    """Signal minus background at the sites of one motif: for each promoter the mean over its sites."""

    own: NDArray[np.float64]
    """(promoters with sites, Q), in their order."""
    count: NDArray[np.int64]
    """(shuffled motifs,) promoters with sites."""
    mean: NDArray[np.float64]
    """(shuffled motifs, Q) mean over these."""
    squares: NDArray[np.float64]
    """(shuffled motifs, Q) sum of the squares over these."""


def site_differences(
    maps: Sequence[PromoterMaps],
    codes: NDArray[np.uint8],
    located: Sequence[ExpectedSites],
    mixing_QT: NDArray[np.float64],
    progress: Progress,
) -> list[SiteDifferences]:
    """Differences of all quantities for each motif.

    maps: of files over the same promoters. codes: (promoters, L) of these. Windows that share a base with a site
    of any of the motifs are no background. They are read twice: for the background, then at sites.
    """
    number = len(mixing_QT)
    covered = Coverage(union([each.sites for each in located]), *codes.shape)
    every = [sites for each in located for sites in (each.sites, *each.shuffled)]
    widths = sorted({int(width) for sites in every for width in np.unique(sites.widths)})
    backgrounds = [MatchedBackground(width, maps[0].window_length, number) for width in widths]
    progress.begin(f"{maps[0].quantity}: background", len(codes))
    for part, signal_BQL in signal_blocks(maps, mixing_QT, codes):
        for background in backgrounds:
            strata_BN = background.strata(codes[part])
            strata_BN[covered.windows(part, background.width)] = -1
            background.add(_windows(signal_BQL, background.width, signed=maps[0].signed), strata_BN)
        progress.advance(part.stop - part.start)
    progress.end()
    means = [background.means() for background in backgrounds]
    firsts = np.cumsum([0, *(1 + len(each.shuffled) for each in located)])
    # The values of a motif itself are kept promoter by promoter, of shuffled ones their sums.
    kept: dict[int, list[NDArray[np.float64]]] = {int(first): [] for first in firsts[:-1]}
    counts = np.zeros(len(every), dtype=np.int64)
    totals, squares = np.zeros((len(every), number)), np.zeros((len(every), number))
    progress.begin(f"{maps[0].quantity}: sites", len(codes))
    for part, signal_BQL in signal_blocks(maps, mixing_QT, codes):
        ranges = [np.searchsorted(sites.rows, [part.start, part.stop]) for sites in every]
        values = [np.empty((last - first, number)) for first, last in ranges]
        for background, means_SQ in zip(backgrounds, means, strict=True):
            windows_BQN = _windows(signal_BQL, background.width, signed=maps[0].signed)
            strata_BN = background.strata(codes[part])
            for sites, (first, last), into in zip(every, ranges, values, strict=True):
                own = np.flatnonzero(sites.widths[first:last] == background.width)
                rows, starts = sites.rows[first + own] - part.start, sites.starts[first + own]
                into[own] = windows_BQN[rows, :, starts] - means_SQ[strata_BN[rows, starts]]
        for motif, (sites, (first, last), found) in enumerate(zip(every, ranges, values, strict=True)):
            # Means over the sites of each promoter; rows ascend.
            _, begins, sizes = np.unique(sites.rows[first:last], return_index=True, return_counts=True)
            values_GQ = found
            if len(begins):
                values_GQ = np.add.reduceat(found, begins, axis=0) / sizes[:, None]
            if motif in kept:
                kept[motif].append(values_GQ)
            counts[motif] += len(values_GQ)
            totals[motif] += values_GQ.sum(axis=0)
            squares[motif] += np.square(values_GQ).sum(axis=0)
        progress.advance(part.stop - part.start)
    progress.end()
    mean = totals / np.maximum(counts, 1)[:, None]
    shuffled = [slice(first + 1, last) for first, last in itertools.pairwise(firsts)]
    return [
        SiteDifferences(np.concatenate(own), counts[others], mean[others], squares[others])
        for own, others in zip(kept.values(), shuffled, strict=True)
    ]


def _windows(signal_BQL: NDArray[np.float64], width: int, *, signed: bool) -> NDArray[np.float64]:
    sums_BQN = window_sums(signal_BQL, width)
    return sums_BQN if signed else sums_BQN / width
