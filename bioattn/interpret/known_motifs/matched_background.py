"""The background of a signal: its mean over windows matched by position and G+C.

Every window of W bases of every promoter belongs to a stratum: its distance from the promoters' right end (where
those of different lengths are aligned) in steps of `POSITION_STEP` bases, and how many of its W bases are G or C.
The background of a window is the mean over all windows of its stratum; where there are fewer than `LEAST_WINDOWS`
of them, over those of the nearest G+C counts as well. Windows with an N belong nowhere; which others count is the
caller's choice.

Shape suffixes: B promoters, Q quantities, L bases, S strata, W bases of a window, N windows of a promoter.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.nucleotides import UNKNOWN

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
        """Windows seen."""
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
            self._sums_SQ[:, number] += np.bincount(
                strata, weights=windows_BQN[:, number][known], minlength=self.counts_S.size
            )

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
    running = np.zeros((*values_BQL.shape[:-1], values_BQL.shape[-1] + 1))
    np.cumsum(values_BQL, axis=-1, out=running[..., 1:])
    sums: NDArray[np.float64] = running[..., width:] - running[..., :-width]
    return sums
