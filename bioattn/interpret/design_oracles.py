"""The k-mers of sequences: an oracle of what they tell of responses, designs by simple means that climb on it, and
how designs differ from real promoters.

Shape suffixes: B sequences, L positions, T treatments.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.formats.nucleotides import UNKNOWN
from bioattn.simulate.motifs import MarkovBackground, kmer_numbers

Codes = NDArray[np.uint8]
Floats = NDArray[np.float64]

K = 6
PENALTIES = 10.0 ** np.arange(0, 6)
AT_ONCE = 512
NEAR_K = 8
"""Words by whose number two sequences are near."""


class KmerOracle:
    """A ridge regression on counts of 6-mers of the given strand, of whose penalties the one with the smallest
    leave-one-out error is taken for each treatment."""

    def __init__(self, codes_BL: Codes, targets_BT: Floats) -> None:
        """targets_BT: NaN where a response was not measured."""
        counts_BF = kmer_counts(codes_BL, K)
        self.weights_FT = np.zeros((counts_BF.shape[1], targets_BT.shape[1]))
        kernels: dict[bytes, _Kernel] = {}
        for place, targets_B in enumerate(targets_BT.T):
            known = ~np.isnan(targets_B)
            if known.tobytes() not in kernels:
                kernels[known.tobytes()] = _Kernel(counts_BF[known])
            self.weights_FT[:, place] = kernels[known.tobytes()].ridge(targets_B[known])

    def scores(self, codes_BL: Codes) -> Floats:
        """Responses (B, T), up to a constant of each treatment."""
        starts = range(0, len(codes_BL), AT_ONCE)
        parts = (kmer_numbers(codes_BL[first : first + AT_ONCE], K) for first in starts)
        return np.concatenate([self.weights_FT[kmers].sum(1) for kmers in parts])


class _Kernel:
    """Sequences by the eigenvectors of the kernel of all their pairs."""

    def __init__(self, counts_BF: Floats) -> None:
        self.centred_BF = counts_BF - counts_BF.mean(0)
        self.values_B, self.vectors_BB = np.linalg.eigh(self.centred_BF @ self.centred_BF.T)

    def ridge(self, targets_B: Floats) -> Floats:
        """Weights of the features, with the penalty whose mean error of leaving each one out is smallest."""
        turned_B = self.vectors_BB.T @ (targets_B - targets_B.mean())
        found = []
        for penalty in PENALTIES:
            shrunk_B = 1 / (np.maximum(self.values_B, 0) + penalty)
            left_B = self.vectors_BB @ (turned_B * shrunk_B)  # (kernel + penalty)^-1 targets
            diagonal_B = self.vectors_BB**2 @ shrunk_B
            found.append((float(np.mean((left_B / diagonal_B) ** 2)), left_B))
        return np.asarray(self.centred_BF.T @ min(found, key=lambda each: each[0])[1])


def kmer_counts(codes_BL: Codes, k: int) -> Floats:
    """How often each k-mer occurs in each sequence, last how many places hold an unknown base, (B, 4^k + 1)."""
    size = 4**k + 1
    cells = kmer_numbers(codes_BL, k) % size + size * np.arange(len(codes_BL))[:, None]
    counts = np.bincount(cells.ravel(), minlength=size * len(codes_BL))
    return counts.reshape(len(codes_BL), size).astype(np.float64)


def kmer_distance(one_BL: Codes, other_BL: Codes, k: int) -> float:
    """Half the sum of differences of the k-mer frequencies of two sets (total variation), 0 to 1."""
    shares = []
    for codes in (one_BL, other_BL):
        parts = (codes[first : first + AT_ONCE] for first in range(0, len(codes), AT_ONCE))
        counts = sum(kmer_counts(part, k).sum(0) for part in parts)
        shares.append(np.asarray(counts)[:-1] / max(1, np.asarray(counts)[:-1].sum()))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def nearest(codes_BL: Codes, others_BL: Codes, *, same: bool = False) -> NDArray[np.float64]:
    """Of each sequence the largest share of its 8-mers that one other sequence holds, (B,).

    same: both are one set, of which a sequence is no neighbour of itself.
    """
    others = _words(others_BL)
    found = []
    for first in range(0, len(codes_BL), 256):
        own = _words(codes_BL[first : first + 256])
        shared = (own @ others.T).toarray()
        if same:
            shared[np.arange(len(shared)), first + np.arange(len(shared))] = 0
        found.append(shared.max(1) / np.maximum(1, own.sum(1)))
    return np.concatenate(found)


def _words(codes_BL: Codes) -> csr_array:
    """Which 8-mers occur, 0 or 1, (B, 4^8)."""
    numbers = kmer_numbers(codes_BL, NEAR_K)
    size = 4**NEAR_K
    cells = np.unique((numbers + size * np.arange(len(codes_BL))[:, None])[numbers >= 0])
    return csr_array((np.ones(cells.size), np.divmod(cells, size)), shape=(len(codes_BL), size))


Objective = Callable[[Codes], NDArray[np.float64]]
ORDER = 3
PASTED = 6
"""Words that are pasted into a sequence of the chain, drawn from so many best ones for each treatment."""
BEST_WORDS = 8
CLIMBS = 60
"""Rounds of hill-climbing: of so many mutants of each sequence the best one stays."""
MUTANTS = 48
GENERATIONS = 60


def baseline_designs(
    train_BL: Codes, number: int, oracle: KmerOracle, direction_T: NDArray[np.float64], seed: int
) -> Mapping[str, Codes]:
    """Designs of each simple means. direction_T: what a design wants of each treatment, 1 on, -1 off, 0 no matter.

    The oracle may have seen the training promoters, as the model that it is compared with has.
    """
    rng = np.random.default_rng(seed)
    chain = MarkovBackground.fitted(train_BL, ORDER)
    drawn = chain.sample(rng, number, train_BL.shape[1])
    spread_T = oracle.scores(train_BL).std(0) + 1e-12

    def objective(codes: Codes) -> NDArray[np.float64]:
        return np.asarray(oracle.scores(codes) @ (direction_T / spread_T))

    worth = oracle.weights_FT[:-1] @ (direction_T / spread_T)
    words = np.argsort(-worth, kind="stable")[: BEST_WORDS * max(1, int(np.abs(direction_T).sum()))]
    letters: NDArray[np.int64] = (words[:, None] // 4 ** np.arange(K - 1, -1, -1)) % 4
    pasted = drawn.copy()
    for row in pasted:
        for word in rng.choice(len(letters), PASTED):
            place = rng.integers(row.size - K + 1)
            row[place : place + K] = letters[word]
    climbed = drawn.copy()
    for _ in range(CLIMBS):
        mutants = np.repeat(climbed, MUTANTS, axis=0)
        _mutate(rng, mutants, 1)
        mutants = np.concatenate([climbed[:, None], mutants.reshape(len(climbed), MUTANTS, -1)], 1)
        gains = objective(mutants.reshape(-1, climbed.shape[1])).reshape(len(climbed), -1)
        climbed = mutants[np.arange(len(climbed)), gains.argmax(1)]
    bred = _bred(rng, chain.sample(rng, max(number, 32), train_BL.shape[1]), objective)
    return {
        f"Markov chain of order {ORDER}": drawn,
        "the same with words pasted in": pasted,
        "hill-climbing": climbed,
        "genetic algorithm": bred[:number],
    }


def _bred(rng: np.random.Generator, codes_BL: Codes, objective: Objective) -> Codes:
    """Parents win tournaments of two; children have one cut and two mutations; the better half of both stays."""
    population, (size, length) = codes_BL, codes_BL.shape
    worth = objective(population)
    for _ in range(GENERATIONS):
        rivals: NDArray[np.int64] = rng.integers(size, size=(2, size, 2))
        winners = np.expand_dims(worth[rivals].argmax(-1), -1)
        fathers, mothers = np.take_along_axis(rivals, winners, -1)[..., 0]
        left = np.arange(length) < rng.integers(1, length, size=(size, 1))
        children = np.where(left, population[fathers], population[mothers])
        _mutate(rng, children, 2)
        together = np.concatenate([population, children])
        worth = objective(together)
        kept = np.argsort(-worth, kind="stable")[:size]
        population, worth = together[kept], worth[kept]
    return population


def _mutate(rng: np.random.Generator, codes_BL: Codes, times: int) -> None:
    rows = np.arange(len(codes_BL))
    for _ in range(times):
        place = rng.integers(codes_BL.shape[1], size=len(codes_BL))
        step = rng.integers(1, 4, len(codes_BL))
        codes_BL[rows, place] = (codes_BL[rows, place] % UNKNOWN + step) % UNKNOWN
