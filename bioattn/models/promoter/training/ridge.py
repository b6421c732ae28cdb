"""Ridge regression of many responses on sequence counts, for any penalty from one eigendecomposition.

Responses are centred on their training means, and missing ones set to that mean for the fit so that all treatments
share one decomposition. Features have mean squared row length 1 (`Standardiser`), so a penalty is the ratio of
noise to signal variance and means the same for every set of features.

Sequences are counted as k-mers and codons in regions. Regions are counted from the right end of the window, where
promoters of different lengths are aligned: start −300, stop 0 is the last 300 bases. K-mers with an N do not
count.

Shape suffixes: G genes, L bases, T treatments, F features, R rank, D directions in treatment space.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.promoters.homology import canonical_columns

Codes: TypeAlias = NDArray[np.uint8]
Counts: TypeAlias = NDArray[np.float32]

UNKNOWN = 4
START_CODON = (0, 3, 2)  # A T G


@dataclass(frozen=True, slots=True)
class Kmers:
    """K-mers wholly inside a region, each counted by its distance from `centre`: exp(−½ (distance / width)²).

    Sites that act on a promoter lie around a typical distance from its anchor; a bump lets k-mers there count for
    more, without a border. Infinitely wide, all k-mers of the region count the same.
    """

    k: int
    start: int
    """Bases from the right end of the window, at most 0; beyond the left end is cut there."""
    stop: int = 0
    canonical: bool = True
    """Whether a k-mer and its reverse complement are one feature."""
    step: int = 1
    """Bases from one counted position to the next: with k = 3 and 3, codons in frame."""
    centre: int = 0
    """Bases from the right end of the window."""
    width: float = math.inf
    """Standard deviation of the bump in bases."""

    def name(self, downstream: int) -> str:
        """Such as `6-mers −300..0 weighted around −150±150`; downstream: bases from the anchor on."""
        kind = "codons" if self.step == 3 else f"{'' if self.canonical else 'stranded '}{self.k}-mers"
        name = f"{kind} {signed(self.start + downstream)}..{signed(self.stop + downstream)}"
        if math.isfinite(self.width):
            name += f" weighted around {signed(self.centre + downstream)}±{self.width:g}"
        return name

    def weights(self, length: int) -> NDArray[np.float64]:
        """What a k-mer that begins at each base of a window counts, shape=(length,); 0 outside the region."""
        first, last = max(0, length + self.start), length + self.stop - self.k
        begin_L = np.arange(length)
        counted_L = (begin_L >= first) & (begin_L <= last) & ((begin_L - first) % self.step == 0)
        distance_L = begin_L + self.k / 2 - length - self.centre
        return np.where(counted_L, np.exp(-0.5 * np.square(distance_L / self.width)), 0.0)

    def count(self, codes: Codes) -> Counts:
        """Sums of weights in windows (genes, bases), shape=(genes, 4^k) or (genes, number of canonical k-mers)."""
        return kmer_counts(codes, self.k, self.canonical, self.weights(codes.shape[1]))


def signed(offset: int) -> str:
    """The offset with its sign, a proper minus."""
    return f"{offset:+}".replace("-", "−") if offset else "0"


def kmer_counts(codes: Codes, k: int, canonical: bool, weights: NDArray[np.float64]) -> Counts:
    """How often each k-mer occurs in each row, in alphabetical order of k-mers.

    weights: what an occurrence that begins at each base counts, shape=(bases,).
    """
    columns = canonical_columns(k) if canonical else np.arange(4**k)
    num_features = int(columns.max()) + 1
    counts_GF = np.zeros((len(codes), num_features), np.float32)
    begins = np.flatnonzero(weights)
    if not len(begins):
        return counts_GF
    rows_per_block = max(1, 4_000_000 // len(begins))
    for start in range(0, len(codes), rows_per_block):
        block = codes[start : start + rows_per_block]
        kmer = np.zeros((len(block), len(begins)), np.int32)
        known = np.ones(kmer.shape, np.bool_)
        for offset in range(k):
            letters = block[:, begins + offset]
            kmer = kmer * 4 + np.minimum(letters, UNKNOWN - 1)
            known &= letters != UNKNOWN
        cell = columns[kmer] + np.arange(len(block))[:, None] * num_features
        occurrences = np.broadcast_to(weights[begins], kmer.shape)[known]
        tally = np.bincount(cell[known], occurrences, minlength=len(block) * num_features)
        counts_GF[start : start + len(block)] = tally.reshape(len(block), num_features)
    return counts_GF


def find_start_codon(codes: Codes, share: float = 0.9) -> int | None:
    """Column at which at least `share` of the windows have an ATG with coding sequence after it, or None.

    Windows reaching downstream of the start codon have it in one column; a codon count from there on tells much
    about expression that is no promoter's doing. At least one more codon must follow.
    """
    usable = codes[:, :-3]
    if usable.shape[1] < 3 or not len(codes):
        return None
    width = usable.shape[1] - 2
    matches_GL = np.ones((len(codes), width), np.bool_)
    for offset, letter in enumerate(START_CODON):
        matches_GL &= usable[:, offset : offset + width] == letter
    hits_L = matches_GL.mean(axis=0)
    column = int(hits_L.argmax())
    return column if hits_L[column] >= share else None


class Standardiser:
    """Turns counts into features: training mean 0 and variance 1 per column, blocks weighted as a whole.

    Each block is divided so that its mean squared row length is its weight (weights sum to 1); ridge then treats
    64 codons and 2,080 6-mers as the weights say, not by their numbers. Columns constant in training become 0.
    """

    def __init__(self, blocks: Sequence[Kmers], weights: Sequence[float] | None, train_codes: Codes) -> None:
        self.blocks = tuple(blocks)
        shares = np.ones(len(self.blocks)) if weights is None else np.asarray(weights, np.float64)
        shares = shares / shares.sum()
        self.means: list[Counts] = []
        self.factors: list[Counts] = []
        for block, share in zip(self.blocks, shares, strict=True):
            counts_GF = block.count(train_codes)
            deviation_F = counts_GF.std(axis=0)
            informative = deviation_F > 0
            scale = np.sqrt(share / max(1, int(informative.sum())))
            factor_F = np.divide(scale, deviation_F, out=np.zeros_like(deviation_F), where=informative)
            self.means.append(counts_GF.mean(axis=0))
            self.factors.append(factor_F)

    def features(self, codes: Codes) -> Counts:
        """Standardised features, shape=(genes, all blocks' features), float32."""
        parts = [
            (block.count(codes) - mean_F) * factor_F
            for block, mean_F, factor_F in zip(self.blocks, self.means, self.factors, strict=True)
        ]
        return np.concatenate(parts, axis=1)


Matrix: TypeAlias = NDArray[np.float32]

GENES_PER_BLOCK = 4096


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted baseline: standardised counts of a promoter, times coefficients, plus the training mean."""

    standardiser: Standardiser
    coefficients: Matrix
    """(features, treatments)."""
    mean: Matrix
    """(treatments,)."""

    def predict(self, codes: Codes) -> Matrix:
        """Responses to windows of shape (genes, bases): shape=(genes, treatments)."""
        blocks = range(0, max(1, len(codes)), GENES_PER_BLOCK)
        parts = [self.standardiser.features(codes[start : start + GENES_PER_BLOCK]) for start in blocks]
        return np.concatenate([features_GF @ self.coefficients + self.mean for features_GF in parts])


class RidgePath:
    """All ridge fits of one set of features.

    The smaller of the two Gram matrices is decomposed: features × features, or genes × genes where there are fewer
    training genes than features. Time grows with the cube of the smaller of the two.
    """

    def __init__(self, standardiser: Standardiser, train_codes: Codes, deviations: Matrix) -> None:
        """deviations: training responses less their means, 0 where missing, shape=(genes, treatments)."""
        self.standardiser = standardiser
        features_GF = standardiser.features(train_codes)
        if features_GF.shape[0] < features_GF.shape[1]:
            eigenvalues_R, vectors_GR = np.linalg.eigh(features_GF @ features_GF.T)
            self._rotation_FR: Matrix = features_GF.T @ vectors_GR
            self._rotated_RT: Matrix = vectors_GR.T @ deviations
        else:
            eigenvalues_R, self._rotation_FR = np.linalg.eigh(features_GF.T @ features_GF)
            self._rotated_RT = self._rotation_FR.T @ (features_GF.T @ deviations)
        self._eigenvalues_R = np.maximum(eigenvalues_R, 0.0)  # rounding can make an empty direction negative

    def rotate(self, codes: Codes) -> Matrix:
        """Features of windows in the basis of the decomposition, shape=(genes, rank): `@ weights` predicts."""
        return np.asarray(self.standardiser.features(codes) @ self._rotation_FR)

    def weights(self, penalty: float, directions_TD: Matrix | None = None) -> Matrix:
        """Ridge weights in that basis: shape=(rank, treatments).

        With orthonormal `directions_TD`, shape=(treatments, directions), the columns are directions in treatment
        space instead: the fit of each direction's score.
        """
        rotated_RT = self._rotated_RT if directions_TD is None else self._rotated_RT @ directions_TD
        return np.asarray(rotated_RT / (self._eigenvalues_R + penalty)[:, None], np.float32)

    def model(self, weights_RT: Matrix, mean: Matrix) -> LinearModel:
        return LinearModel(self.standardiser, self._rotation_FR @ weights_RT, mean)
