"""A signal at sites less the matched background, by promoter; shuffled motifs as sums, so that memory stays flat.

Shape suffixes: B promoters, Q quantities, L bases, N windows of a promoter, G promoters with sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bioattn.interpret.known_motifs.expected_sites import ExpectedSites
from bioattn.interpret.known_motifs.matched_background import MatchedBackground, window_sums
from bioattn.interpret.known_motifs.position_signals import PositionSignal
from bioattn.interpret.known_motifs.site_sets import Coverage, union
from bioattn.system.progress import Progress


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


@dataclass(slots=True)
class _Sums:
    """Sums over the promoters of one shuffled motif."""

    count: int = 0
    total: NDArray[np.float64] | float = 0.0
    squares: NDArray[np.float64] | float = 0.0

    def add(self, values_GQ: NDArray[np.float64]) -> None:
        self.count += len(values_GQ)
        self.total = self.total + values_GQ.sum(axis=0)
        self.squares = self.squares + np.square(values_GQ).sum(axis=0)


@dataclass(slots=True)
class _Kept:
    """The values of a motif itself, promoter by promoter."""

    values: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, values_GQ: NDArray[np.float64]) -> None:
        self.values.append(values_GQ)


def site_differences(
    signal: PositionSignal,
    codes: NDArray[np.uint8],
    located: Sequence[ExpectedSites],
    mixing_QT: NDArray[np.float64],
    progress: Progress,
) -> list[SiteDifferences]:
    """Differences of all quantities for each motif.

    codes: (promoters, L) of the signal's promoters. Windows that share a base with a site of any of the motifs are
    no background. The signal is read twice: for the background, then at sites.
    """
    number = len(mixing_QT)
    covered = Coverage(union([each.sites for each in located]), *codes.shape)
    every = [sites for each in located for sites in (each.sites, *each.shuffled)]
    widths = sorted({int(width) for sites in every for width in np.unique(sites.widths)})
    backgrounds = [MatchedBackground(width, signal.window_length, number) for width in widths]
    progress.begin(f"{signal.name}: background", len(codes))
    for part, signal_BQL in signal.blocks(mixing_QT, codes):
        for background in backgrounds:
            strata_BN = background.strata(codes[part])
            strata_BN[covered.windows(part, background.width)] = -1
            background.add(_windows(signal, signal_BQL, background.width), strata_BN)
        progress.advance(part.stop - part.start)
    progress.end()
    means = [background.means() for background in backgrounds]
    kept = [_Kept() for _ in located]
    shuffled = [[_Sums() for _ in each.shuffled] for each in located]
    keepers: list[_Kept | _Sums] = []
    for own_values, sums in zip(kept, shuffled, strict=True):
        keepers += [own_values, *sums]
    progress.begin(f"{signal.name}: sites", len(codes))
    for part, signal_BQL in signal.blocks(mixing_QT, codes):
        ranges = [np.searchsorted(sites.rows, [part.start, part.stop]) for sites in every]
        values = [np.empty((last - first, number)) for first, last in ranges]
        for background, means_SQ in zip(backgrounds, means, strict=True):
            windows_BQN = _windows(signal, signal_BQL, background.width)
            strata_BN = background.strata(codes[part])
            for sites, (first, last), into in zip(every, ranges, values, strict=True):
                own = np.flatnonzero(sites.widths[first:last] == background.width)
                rows, starts = sites.rows[first + own] - part.start, sites.starts[first + own]
                into[own] = windows_BQN[rows, :, starts] - means_SQ[strata_BN[rows, starts]]
        for sites, (first, last), found, keeper in zip(every, ranges, values, keepers, strict=True):
            keeper.add(_by_promoter(sites.rows[first:last], found))
        progress.advance(part.stop - part.start)
    progress.end()
    return [_finished(own, others, number) for own, others in zip(kept, shuffled, strict=True)]


def _windows(signal: PositionSignal, signal_BQL: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    sums_BQN = window_sums(signal_BQL, width)
    return sums_BQN if signal.per_site else sums_BQN / width


def _by_promoter(rows: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(G, Q) means over the sites (sites, Q) of each promoter; rows ascend."""
    promoters, counts = np.unique(rows, return_counts=True)
    if not len(promoters):
        return values
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means: NDArray[np.float64] = np.add.reduceat(values, begins, axis=0) / counts[:, None]
    return means


def _finished(kept: _Kept, shuffled: Sequence[_Sums], number: int) -> SiteDifferences:
    counts = np.array([sums.count for sums in shuffled], dtype=np.int64)
    totals = np.array([sums.total for sums in shuffled]).reshape(-1, number)
    return SiteDifferences(
        own=np.concatenate(kept.values) if kept.values else np.empty((0, number)),
        count=counts,
        mean=totals / np.maximum(counts, 1)[:, None],
        squares=np.array([sums.squares for sums in shuffled]).reshape(-1, number),
    )
