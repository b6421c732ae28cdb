"""Tanimoto similarity of fingerprints, and the two simple models that rest on it alone.

Shape suffixes: N known molecules, Q queries, T tasks.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WIDTHS = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""Of Nadaraya–Watson: weights are exp(width · Tanimoto); leave-one-out chooses."""
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the Gaussian process: noise variance in units of the signal's; the marginal likelihood chooses."""
MAX_PROCESS = 4000
"""Molecules that a Gaussian process is fitted to at most: its work grows with their cube."""
_BLOCK = 2048


def tanimoto(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Floats:
    """Shared bits divided by all bits of two fingerprints, (Q, N); two empty ones are equal.

    first, second: packed bits (Q, bytes), (N, bytes).
    """
    one = np.unpackbits(first, axis=1).astype(np.float32)
    similar = np.ones((len(first), len(second)))
    for start in range(0, len(second), _BLOCK):
        columns = slice(start, start + _BLOCK)
        other = np.unpackbits(second[columns], axis=1).astype(np.float32)
        shared = (one @ other.T).astype(np.float64)
        either = one.sum(1)[:, None] + other.sum(1) - shared
        np.divide(shared, either, out=similar[:, columns], where=either > 0)
    return similar


def tanimoto_blocks(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Iterator[tuple[slice, Floats]]:
    """Rows of `tanimoto` in blocks that bound memory: which rows of `first`, and their similarities."""
    size = _rows_at_once(len(second))
    for start in range(0, len(first), size):
        rows = slice(start, min(start + size, len(first)))
        yield rows, tanimoto(first[rows], second)


def _rows_at_once(columns: int) -> int:
    """Rows of similarities that fit in 128 MB."""
    return min(_BLOCK, max(1, 2**24 // max(1, columns)))


class NadarayaWatson:
    """The mean of measured values, weighted by exp(width · Tanimoto) (Nadaraya 1964, Watson 1964)."""

    def __init__(
        self, fingerprints: NDArray[np.uint8], targets_NT: Floats, width: float | None = None
    ) -> None:
        """width: None = the one of `WIDTHS` with the least squared error of leave-one-out on molecules drawn
        evenly, 2,048 or fewer."""
        self.fingerprints, self.targets_NT = fingerprints, targets_NT
        self.mean_T = np.nanmean(targets_NT, axis=0)
        self.width = self._chosen() if width is None else width

    def _chosen(self) -> float:
        number = _rows_at_once(len(self.fingerprints))
        rows = np.unique(np.linspace(0, len(self.fingerprints) - 1, number).round().astype(int))
        similar_QN = tanimoto(self.fingerprints[rows], self.fingerprints)
        similar_QN[np.arange(len(rows)), rows] = -np.inf
        errors = [
            float(np.nanmean(np.square(self._means(similar_QN, width) - self.targets_NT[rows])))
            for width in WIDTHS
        ]
        return WIDTHS[int(np.argmin(errors))]

    def _means(self, similar_QN: Floats, width: float) -> Floats:
        with np.errstate(invalid="ignore"):  # a single molecule without itself has none that is similar
            weight_QN = np.exp(width * (similar_QN - similar_QN.max(1, keepdims=True)))
        measured_NT = np.isfinite(self.targets_NT)
        total_QT = weight_QN @ measured_NT
        summed_QT = weight_QN @ np.where(measured_NT, self.targets_NT, 0.0)
        means_QT: Floats = np.where(total_QT > 0, summed_QT / np.maximum(total_QT, 1e-300), self.mean_T)
        return means_QT

    def predict(self, fingerprints: NDArray[np.uint8]) -> Floats:
        """(Q, T)."""
        parts = [
            self._means(similar, self.width)
            for _, similar in tanimoto_blocks(fingerprints, self.fingerprints)
        ]
        return np.concatenate(parts)


class TanimotoProcess:
    """A Gaussian process with the Tanimoto kernel on each task's values; classes as 0 and 1.

    rows: the molecules that it was fitted to, at most `MAX_PROCESS`. left_out_NT: their predictions without
    themselves, of the same kernel and noise (Rasmussen & Williams 2006, eq. 5.12); NaN where not measured.
    """

    def __init__(self, fingerprints: NDArray[np.uint8], targets_NT: Floats, seed: int = 0) -> None:
        self.rows = np.arange(len(fingerprints))
        if len(fingerprints) > MAX_PROCESS:
            self.rows = np.sort(np.random.default_rng(seed).permutation(self.rows)[:MAX_PROCESS])
            fingerprints, targets_NT = fingerprints[self.rows], targets_NT[self.rows]
        self.fingerprints = fingerprints
        kernel_NN = tanimoto(fingerprints, fingerprints)
        measured_NT = np.isfinite(targets_NT)
        self.mean_T = np.nanmean(targets_NT, axis=0)
        self.weights_NT = np.zeros_like(targets_NT)
        self.left_out_NT = np.full_like(targets_NT, np.nan)
        patterns, pattern_T = np.unique(measured_NT, axis=1, return_inverse=True)
        for number, rows in enumerate(patterns.T):
            tasks = np.flatnonzero(pattern_T.ravel() == number)
            values, vectors = np.linalg.eigh(kernel_NN[np.ix_(rows, rows)])
            values = np.maximum(values, 0.0)
            rotated = vectors.T @ (targets_NT[np.ix_(rows, tasks)] - self.mean_T[tasks])
            for place, task in enumerate(tasks):
                noise = max(NOISES, key=lambda noise: _evidence(values, rotated[:, place], noise))
                weights = vectors @ (rotated[:, place] / (values + noise))
                self.weights_NT[rows, task] = weights
                precision = np.square(vectors) @ (1 / (values + noise))
                self.left_out_NT[rows, task] = targets_NT[rows, task] - weights / precision

    def predict(self, fingerprints: NDArray[np.uint8]) -> Floats:
        """(Q, T)."""
        parts = [similar @ self.weights_NT for _, similar in tanimoto_blocks(fingerprints, self.fingerprints)]
        answers_QT: Floats = self.mean_T + np.concatenate(parts)
        return answers_QT


def _evidence(values: Floats, rotated: Floats, noise: float) -> float:
    """The logarithm of the marginal likelihood, but for a constant, with the best scale of the kernel."""
    spread = values + noise
    with np.errstate(divide="ignore"):  # of constant values the best scale is 0
        return float(-0.5 * len(values) * np.log(np.mean(rotated**2 / spread)) - 0.5 * np.log(spread).sum())
