"""Designs by simple means: Markov chains, pasted words, hill-climbing and a genetic algorithm on an oracle.

Shape suffixes: B sequences, L positions.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.designs.oracle import K, KmerOracle
from bioattn.simulate.motifs import MarkovBackground

Codes = NDArray[np.uint8]
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
    return {
        f"Markov chain of order {ORDER}": drawn,
        "the same with words pasted in": _pasted(rng, drawn, words),
        "hill-climbing": _climbed(rng, drawn, objective),
        "genetic algorithm": _bred(rng, chain.sample(rng, max(number, 32), train_BL.shape[1]), objective)[
            :number
        ],
    }


def _pasted(rng: np.random.Generator, codes_BL: Codes, words: NDArray[np.int64]) -> Codes:
    letters: NDArray[np.int64] = (words[:, None] // 4 ** np.arange(K - 1, -1, -1)) % 4
    pasted = codes_BL.copy()
    for row in pasted:
        for word in rng.choice(len(letters), PASTED):
            place = rng.integers(row.size - K + 1)
            row[place : place + K] = letters[word]
    return pasted


def _climbed(rng: np.random.Generator, codes_BL: Codes, objective: Objective) -> Codes:
    climbed = codes_BL.copy()
    for _ in range(CLIMBS):
        mutants = np.repeat(climbed, MUTANTS, axis=0)
        _mutate(rng, mutants, 1)
        mutants = np.concatenate([climbed[:, None], mutants.reshape(len(climbed), MUTANTS, -1)], 1)
        worth = objective(mutants.reshape(-1, climbed.shape[1])).reshape(len(climbed), -1)
        climbed = mutants[np.arange(len(climbed)), worth.argmax(1)]
    return climbed


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
        codes_BL[rows, place] = (
            codes_BL[rows, place] % UNKNOWN + rng.integers(1, 4, len(codes_BL))
        ) % UNKNOWN
