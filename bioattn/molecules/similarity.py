"""Tanimoto similarity of fingerprints, and the two simple models that rest on it alone.

Shape suffixes: N known molecules, Q queries, T tasks.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.molecules.graphs import ATOM_FEATURES, Molecules

Floats = NDArray[np.float64]
WIDTHS = (2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""Of Nadaraya–Watson: weights are exp(width · Tanimoto); leave-one-out chooses."""
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of the Gaussian process: noise variance in units of the signal's; the marginal likelihood chooses."""
MAX_PROCESS = 4000
"""Molecules that a Gaussian process is fitted to at most: its work grows with their cube."""
_BLOCK = 1024
"""Molecules that are compared at a time with as many others: 8 MB."""


def tanimoto(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Floats:
    """Shared bits divided by all bits of two fingerprints, (Q, N); two empty ones are equal.

    first, second: packed bits (Q, bytes), (N, bytes).
    """
    similar = np.ones((len(first), len(second)))
    for columns, block in _compared(first, second):
        similar[:, columns] = block
    return similar


def _compared(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> Iterator[tuple[slice, Floats]]:
    """Columns of `tanimoto` in blocks: which of `second`, and their similarities."""
    one = np.unpackbits(first, axis=1).astype(np.float32)
    for columns in _blocks(len(second)):
        other = np.unpackbits(second[columns], axis=1).astype(np.float32)
        shared = (one @ other.T).astype(np.float64)
        either = one.sum(1)[:, None] + other.sum(1) - shared
        yield columns, np.divide(shared, either, out=np.ones_like(shared), where=either > 0)


def _blocks(number: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, number)) for start in range(0, number, _BLOCK))


class NadarayaWatson:
    """The mean of measured values, weighted by exp(width · Tanimoto) (Nadaraya 1964, Watson 1964)."""

    def __init__(
        self, fingerprints: NDArray[np.uint8], targets_NT: Floats, width: float | None = None
    ) -> None:
        """width: None = the one of `WIDTHS` with the least squared error of leave-one-out on molecules drawn
        evenly, 2,048 or fewer."""
        self.fingerprints, self.targets_NT = fingerprints, targets_NT
        self.mean_T = np.nanmean(targets_NT, axis=0)
        if width is None:
            number = min(2048, max(1, 2**24 // len(fingerprints)))
            rows = np.unique(np.linspace(0, len(fingerprints) - 1, number).round().astype(int))
            means_WQT = self._means(fingerprints[rows], WIDTHS, rows)
            errors = [float(np.nanmean(np.square(means_QT - targets_NT[rows]))) for means_QT in means_WQT]
            width = WIDTHS[int(np.argmin(errors))]
        self.width = width

    def _means(
        self,
        fingerprints: NDArray[np.uint8],
        widths: Sequence[float],
        without: NDArray[np.int64] | None = None,
    ) -> Floats:
        """(W, Q, T), block by block. without: of each query the known molecule that does not count."""
        total_WQT, summed_WQT = np.zeros((2, len(widths), len(fingerprints), self.targets_NT.shape[1]))
        for queries in _blocks(len(fingerprints)):
            for known, similar_QN in _compared(fingerprints[queries], self.fingerprints):
                if without is not None:
                    similar_QN[without[queries, None] == np.arange(known.start, known.stop)] = -np.inf
                measured_NT = np.isfinite(self.targets_NT[known])
                values_NT = np.where(measured_NT, self.targets_NT[known], 0.0)
                for place, width in enumerate(widths):
                    weight_QN = np.exp(width * (similar_QN - 1))
                    total_WQT[place, queries] += weight_QN @ measured_NT
                    summed_WQT[place, queries] += weight_QN @ values_NT
        means_WQT: Floats = np.where(total_WQT > 0, summed_WQT / np.maximum(total_WQT, 1e-300), self.mean_T)
        return means_WQT

    def predict(self, fingerprints: NDArray[np.uint8]) -> Floats:
        """(Q, T)."""
        means_QT: Floats = self._means(fingerprints, [self.width])[0]
        return means_QT


class TanimotoProcess:
    """A Gaussian process with the Tanimoto kernel on each task's values; classes as 0 and 1.

    rows: the molecules that it was fitted to, at most `MAX_PROCESS`. left_out_NT: their predictions without
    themselves, of the same kernel and noise (Rasmussen & Williams 2006, eq. 5.12); NaN where not measured.
    """

    def __init__(self, fingerprints: NDArray[np.uint8], targets_NT: Floats) -> None:
        self.rows = np.arange(len(fingerprints))
        if len(fingerprints) > MAX_PROCESS:
            self.rows = np.sort(np.random.default_rng(0).permutation(self.rows)[:MAX_PROCESS])
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
        parts = [
            tanimoto(fingerprints[queries], self.fingerprints) @ self.weights_NT
            for queries in _blocks(len(fingerprints))
        ]
        answers_QT: Floats = self.mean_T + np.concatenate(parts)
        return answers_QT


def _evidence(values: Floats, rotated: Floats, noise: float) -> float:
    """The logarithm of the marginal likelihood, but for a constant, with the best scale of the kernel."""
    spread = values + noise
    with np.errstate(divide="ignore"):  # of constant values the best scale is 0
        return float(-0.5 * len(values) * np.log(np.mean(rotated**2 / spread)) - 0.5 * np.log(spread).sum())


BITS = 8192
RADIUS = 1
"""Bonds that a substructure reaches from its atom."""
_FEATURES = list(ATOM_FEATURES).index("chirality")
"""Features before chirality tell atoms apart."""
_MIXED = np.uint64(0x9E3779B97F4A7C15)


def place_bits(
    molecules: Molecules, rows: Sequence[int] | NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bit of each atom at each radius, (Q, R, A), and the bit that its molecule loses without it.

    -1 in padding. The two differ where several atoms are alike: without any one of them the last of their bits is
    lost.
    """
    sizes = molecules.sizes[rows]
    own_QRA, lost_QRA = (np.full((len(sizes), RADIUS + 1, int(sizes.max())), -1) for _ in range(2))
    for number, row in enumerate(rows):
        for radius, identifiers in enumerate(_identifiers(*molecules.graph(int(row)))):
            _, kind, count = np.unique(identifiers, return_inverse=True, return_counts=True)
            order = np.argsort(kind, kind="stable")
            first = np.concatenate([[0], count.cumsum()[:-1]])
            nth = np.empty(len(kind), np.int64)
            nth[order] = np.arange(len(kind)) - first[kind[order]]
            for bits_QRA, occurrence in ((own_QRA, nth), (lost_QRA, count[kind] - 1)):
                mixed = _mix(identifiers + _MIXED * (occurrence + 1).astype(np.uint64))
                bits_QRA[number, radius, : len(kind)] = mixed % np.uint64(BITS)
    return own_QRA, lost_QRA


def packed_bits(molecules: Molecules, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bits of some molecules, (Q, BITS / 8)."""
    packed = np.zeros((len(rows), BITS // 8), np.uint8)
    for number, row in enumerate(rows):
        bits = np.zeros(BITS, np.uint8)
        bits[place_bits(molecules, [int(row)])[0].ravel()] = 1
        packed[number] = np.packbits(bits)
    return packed


def _identifiers(atoms_NF: NDArray[np.uint8], bonds_M3: NDArray[np.uint16]) -> list[NDArray[np.uint64]]:
    """One per atom for each radius from 0."""
    own_N = np.zeros(len(atoms_NF), np.uint64)
    for feature_N in atoms_NF[:, :_FEATURES].T:
        own_N = _mix(own_N + feature_N.astype(np.uint64))
    found = [own_N]
    first, second, code = bonds_M3.T.astype(np.int64)
    for _ in range(RADIUS):
        around_N = np.zeros(len(atoms_NF), np.uint64)
        for here, there in ((first, second), (second, first)):
            np.add.at(around_N, here, _mix(found[-1][there] + code.astype(np.uint64)))
        found.append(_mix(found[-1] * _MIXED + around_N))
    return found


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of a number on every bit of the result (SplitMix64, Steele et al. 2014)."""
    values = values + _MIXED
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
