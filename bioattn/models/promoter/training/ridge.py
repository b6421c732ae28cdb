"""Ridge regression of many responses on sequence counts.

Responses are centred on their training means, and missing ones set to that mean for the fit so that all treatments
share one decomposition. Features have mean squared row length 1 (`Standardised`), so a penalty is the ratio of
noise to signal variance and means the same for every set of features and any number of genes.

Sequences are counted as k-mers and codons in regions, or in windows along a region. Both are counted from the
right end of the promoter, where those of different lengths are aligned: start −300, stop 0 is the last 300 bases.
K-mers with an N do not count.

Shape suffixes: G genes, L bases, T treatments, F features, R rank, D directions in treatment space.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import ssyrk

from bioattn.promoters.kmers import canonical_columns

Codes: TypeAlias = NDArray[np.uint8]
Counts: TypeAlias = NDArray[np.float32]

UNKNOWN = 4
START_CODON = (0, 3, 2)  # A T G
CODING = 0.9
"""Share of windows with a start codon in one column, from which on they are taken as coding."""


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
    window: int = 0
    """Bases of the windows in which k-mers are counted apart; 0: the region is one."""
    log: bool = False
    """Whether a feature is log(1 + count): a second site adds less than the first."""

    def name(self, downstream: int) -> str:
        """Such as `6-mers −300..0 weighted around −150±150`; downstream: bases from the anchor on."""
        kind = "codons" if self.step == 3 else f"{'' if self.canonical else 'stranded '}{self.k}-mers"
        places = (self.start + downstream, self.stop + downstream, self.centre + downstream)
        start, stop, centre = (f"{place:+}".replace("-", "−") if place else "0" for place in places)
        name = f"{kind} {start}..{stop}"
        if math.isfinite(self.width):
            name += f" weighted around {centre}±{self.width:g}"
        return name + (f" by {self.window} bp" if self.window else "")

    @property
    def columns(self) -> NDArray[np.int64]:
        """Feature of every k-mer within a window, shape=(4^k,)."""
        return canonical_columns(self.k) if self.canonical else np.arange(4**self.k)

    def windows(self, length: int) -> NDArray[np.int64]:
        """Number of the window, from the right, of a k-mer that begins at each base, shape=(length,)."""
        first, last = max(0, length + self.start), length + self.stop - self.k
        distance_L = np.clip(last - np.arange(length), 0, max(0, last - first))
        return distance_L // self.window if self.window else np.zeros(length, np.int64)

    def weights(self, length: int) -> NDArray[np.float64]:
        """What a k-mer that begins at each base of a window counts, shape=(length,); 0 outside the region."""
        first, last = max(0, length + self.start), length + self.stop - self.k
        begin_L = np.arange(length)
        counted_L = (begin_L >= first) & (begin_L <= last) & ((begin_L - first) % self.step == 0)
        distance_L = begin_L + self.k / 2 - length - self.centre
        return np.where(counted_L, np.exp(-0.5 * np.square(distance_L / self.width)), 0.0)

    def count(self, codes: Codes) -> Counts:
        """Features of promoters (genes, bases), shape=(genes, windows × k-mers): sums of weights, or their log."""
        length = codes.shape[1]
        counts_GF = kmer_counts(codes, self.k, self.columns, self.weights(length), self.windows(length))
        return np.log1p(counts_GF, out=counts_GF) if self.log else counts_GF


def kmer_counts(
    codes: Codes,
    k: int,
    columns: NDArray[np.int64],
    weights: NDArray[np.float64],
    windows: NDArray[np.int64] | None = None,
) -> Counts:
    """How often each k-mer occurs in each window of each row, by windows, then by columns.

    columns: of every k-mer, shape=(4^k,). Of an occurrence that begins at each base, shape=(bases,): weights: what
    it counts; windows: where (None: all in one).
    """
    begins = np.flatnonzero(weights)
    windows = np.zeros(len(weights), np.int64) if windows is None else windows
    kinds = int(columns.max()) + 1
    num_features = kinds * (int(windows[begins].max(initial=0)) + 1)
    counts_GF = np.zeros((len(codes), num_features), np.float32)
    if not len(begins):
        return counts_GF
    columns, first = columns.astype(np.int32), (windows[begins] * kinds).astype(np.int32)
    rows_per_block = max(1, 1_000_000 // len(begins))
    for start in range(0, len(codes), rows_per_block):
        block = codes[start : start + rows_per_block]
        kmer = np.zeros((len(block), len(begins)), np.int32)
        known = np.ones(kmer.shape, np.bool_)
        for offset in range(k):
            letters = block[:, begins + offset]
            kmer = kmer * 4 + np.minimum(letters, UNKNOWN - 1)
            known &= letters != UNKNOWN
        cell = columns[kmer] + first + (np.arange(len(block)) * num_features)[:, None]
        occurrences = np.broadcast_to(weights[begins], kmer.shape)[known]
        tally = np.bincount(cell[known], occurrences, minlength=len(block) * num_features)
        counts_GF[start : start + len(block)] = tally.reshape(len(block), num_features)
    return counts_GF


def find_start_codon(codes: Codes) -> int | None:
    """Column at which nearly all windows have an ATG with coding sequence after it, or None.

    Windows reaching downstream of the start codon have it in one column; a codon count from there on tells much
    about expression that is no promoter's doing. At least one more codon must follow.
    """
    places = codes.shape[1] - 5
    if places < 1 or not len(codes):
        return None
    matches = [codes[:, first : first + places] == base for first, base in enumerate(START_CODON)]
    hits_L = np.all(matches, axis=0).mean(axis=0)
    column = int(hits_L.argmax())
    return column if hits_L[column] >= CODING else None


Matrix: TypeAlias = NDArray[np.float32]

GENES_PER_BLOCK = 4096


def parts(codes: Codes) -> Iterator[Codes]:
    """Some genes at a time, at least one part."""
    for start in range(0, max(1, len(codes)), GENES_PER_BLOCK):
        yield codes[start : start + GENES_PER_BLOCK]


class Standardised(NamedTuple):
    """Counts as features: training mean 0 and, but for logs, variance 1 per column.

    Each of several blocks is divided so that its mean squared row length is its share; ridge then treats 64 codons
    and 2,080 6-mers as the shares say, not by their numbers. Columns constant in training become 0. Of logs all
    columns of a block are divided by one number: k-mers rare in a window would be noise of full variance.
    """

    block: Kmers
    mean_F: Counts
    factor_F: Counts

    @classmethod
    def fit(cls, block: Kmers, share: float, train_codes: Codes) -> "Standardised":
        """share: of the block; those of all blocks sum to 1."""
        sums, squares = 0.0, 0.0
        for some in parts(train_codes):
            counts_GF = block.count(some)
            sums = sums + counts_GF.sum(axis=0, dtype=np.float64)
            squares = squares + np.einsum("gf,gf->f", counts_GF, counts_GF, dtype=np.float64)
        mean_F = np.asarray(sums / len(train_codes))
        variance_F = squares / len(train_codes) - np.square(mean_F)
        # What rounding leaves of a constant column is none.
        informative = variance_F > 1e-9 * (squares / len(train_codes))
        deviation_F = np.sqrt(np.where(informative, variance_F, 0.0))
        if block.log and informative.any():
            deviation_F = np.where(informative, np.sqrt(np.square(deviation_F[informative]).mean()), 0.0)
        scale = np.sqrt(share / max(1, int(informative.sum())))
        factor_F = np.divide(scale, deviation_F, out=np.zeros_like(deviation_F), where=informative)
        return cls(block, mean_F.astype(np.float32), factor_F.astype(np.float32))


def features(blocks: Sequence[Standardised], codes: Codes) -> Counts:
    """Standardised features, shape=(genes, all blocks' features), float32."""
    counted = [(each.block.count(codes) - each.mean_F) * each.factor_F for each in blocks]
    return np.concatenate(counted, axis=1) if len(counted) > 1 else counted[0]


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A fitted baseline: standardised counts of a promoter, times coefficients, plus the training mean."""

    blocks: Sequence[Standardised]
    coefficients: Matrix
    """(features, treatments)."""
    mean: Matrix
    """(treatments,)."""

    def predict(self, codes: Codes) -> Matrix:
        """Responses to windows of shape (genes, bases): shape=(genes, treatments)."""
        return np.concatenate(
            [features(self.blocks, some) @ self.coefficients + self.mean for some in parts(codes)]
        )

    def per_count(self) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """What one unit of each block's features adds (features, treatments), and what is predicted of none
        (treatments,)."""
        offset_T, added = self.mean.astype(np.float64), []
        ends = np.cumsum([len(each.mean_F) for each in self.blocks])
        by_block = np.split(self.coefficients.astype(np.float64), ends[:-1])
        for each, coefficients_FT in zip(self.blocks, by_block, strict=True):
            added.append(each.factor_F[:, None] * coefficients_FT)
            offset_T = offset_T - each.mean_F @ added[-1]
        return added, offset_T

    @classmethod
    def total(cls, models: Sequence["LinearModel"], weights: Sequence[float]) -> "LinearModel":
        """The model that predicts the first one's mean and the weighted sum of deviations from the means."""
        scaled = [
            np.float32(weight) * model.coefficients for model, weight in zip(models, weights, strict=True)
        ]
        blocks = [block for model in models for block in model.blocks]
        return cls(blocks, np.concatenate(scaled), models[0].mean)


class RidgePath:
    """Ridge fits of one set of features, for any penalty.

    The smaller of the two Gram matrices is solved with: features × features, summed up over some genes at a time,
    or genes × genes where there are fewer training genes than features. Time grows with the cube of the smaller.
    """

    def __init__(self, blocks: Sequence[Standardised], train_codes: Codes, deviations: Matrix) -> None:
        """deviations: training responses less their means, 0 where missing, shape=(genes, treatments)."""
        self.blocks = blocks
        self._features_GF: Matrix | None = None
        self._solved: dict[float, Matrix] = {}
        num_features = sum(len(each.mean_F) for each in blocks)
        if len(train_codes) < num_features:
            self._features_GF = features(blocks, train_codes)
            # The upper triangle is enough. A transposed view spares BLAS a copy.
            self._gram_RR = ssyrk(1.0, self._features_GF.T, trans=1)
            self._right_RT = deviations
            return
        self._gram_RR = np.zeros((num_features, num_features), np.float32, order="F")
        self._right_RT = np.zeros((num_features, deviations.shape[1]), np.float32)
        first = 0
        for some in parts(train_codes):
            part_GF = features(blocks, some)
            self._gram_RR = ssyrk(1.0, part_GF.T, beta=1.0, c=self._gram_RR, overwrite_c=1)
            self._right_RT += part_GF.T @ deviations[first : first + len(some)]
            first += len(some)

    def rotate(self, codes: Codes) -> Matrix:
        """Features of windows, or their products with those of the training genes, (genes, rank): `@ weights`
        predicts."""
        if self._features_GF is None:
            return features(self.blocks, codes)
        return np.concatenate([features(self.blocks, some) @ self._features_GF.T for some in parts(codes)])

    def weights(self, penalty: float, directions_TD: Matrix | None = None) -> Matrix:
        """Ridge weights for `rotate`: shape=(rank, treatments).

        With orthonormal `directions_TD`, shape=(treatments, directions), the columns are directions in treatment
        space instead: the fit of each direction's score.
        """
        if penalty not in self._solved:
            gram_RR = self._gram_RR.copy(order="F")
            gram_RR[np.diag_indices_from(gram_RR)] += np.float32(penalty)
            factor = cho_factor(gram_RR, overwrite_a=True, check_finite=False)
            self._solved[penalty] = np.asarray(
                cho_solve(factor, self._right_RT, check_finite=False), np.float32
            )
        solved_RT = self._solved[penalty]
        return solved_RT if directions_TD is None else solved_RT @ directions_TD

    def model(self, weights_RT: Matrix, mean: Matrix) -> LinearModel:
        coefficients = weights_RT if self._features_GF is None else self._features_GF.T @ weights_RT
        return LinearModel(self.blocks, coefficients, mean)
