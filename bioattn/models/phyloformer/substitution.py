"""Substitution models: random sequences along a tree, and the distances that simple methods estimate.

Shape suffixes: N sequences, P pairs of them (i < j, row-major), L sites, K letters, T times.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.models.phyloformer.family import LETTERS, PhylogenyAlphabet

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

_LE_GASCUEL = Path(__file__).with_name("le_gascuel_2008.txt")
"""Exchangeabilities of LG, the lower triangle row by row in the order of `LETTERS`, then the frequencies."""
TIMES = np.geomspace(1e-4, 10.0, 300)
"""Among which the likeliest distance is looked for, in expected substitutions per site."""
GAMMA_SHAPE = 1.0
"""Of the rates of sites, where it is not estimated: the median of protein families."""


class SubstitutionModel:
    """A time-reversible model; a unit of time is one expected substitution per site."""

    def __init__(self, exchangeabilities_KK: Floats, frequencies_K: Floats) -> None:
        """exchangeabilities_KK: symmetric, in any unit; the diagonal is not read."""
        self.frequencies_K = frequencies_K / frequencies_K.sum()
        rates_KK = exchangeabilities_KK * self.frequencies_K
        np.fill_diagonal(rates_KK, 0.0)
        np.fill_diagonal(rates_KK, -rates_KK.sum(1))
        rates_KK /= -(self.frequencies_K * rates_KK.diagonal()).sum()
        root_K = np.sqrt(self.frequencies_K)
        self._eigenvalues, vectors = np.linalg.eigh(rates_KK * root_K[:, None] / root_K)
        self._left_KK, self._right_KK = vectors / root_K[:, None], vectors.T * root_K

    def transitions(self, times_T: Floats, shape: float | None = None) -> Floats:
        """(T, K, K) probabilities of the second letter given the first. shape: of Gamma-distributed rates of sites
        with mean 1; None: one rate."""
        exponents = self._eigenvalues * times_T[:, None]
        decay = np.exp(exponents) if shape is None else (1 - exponents / shape) ** -shape
        probabilities_TKK: Floats = (self._left_KK * decay[:, None]) @ self._right_KK
        return np.maximum(probabilities_TKK, 1e-12)

    def evolve(self, codes_L: Codes, times_L: Floats, random: np.random.Generator) -> Codes:
        """(L,) letters after a time that each site has for itself."""
        decay_LK = np.exp(self._eigenvalues * times_L[:, None])
        chances_LK = ((self._left_KK[codes_L] * decay_LK) @ self._right_KK).cumsum(1)
        drawn_L = random.random(len(codes_L)) * chances_LK[:, -1]
        evolved_L: Codes = (chances_LK < drawn_L[:, None]).sum(1).astype(np.uint8)
        return evolved_L

    def likeliest_distances(self, counts_PKK: Floats, shape: float | None = None) -> Floats:
        """(P,) distances of the largest likelihood, up to the last of `TIMES`; 0 where no letter differs."""
        likelihood_PT = counts_PKK.reshape(len(counts_PKK), -1) @ _log_transitions(self, shape)
        best_P = likelihood_PT.argmax(1)
        # A parabola through three neighbours finds the top between them.
        middle_P = best_P.clip(1, len(TIMES) - 2)
        left, middle, right = (likelihood_PT[np.arange(len(best_P)), middle_P + step] for step in (-1, 0, 1))
        shift = np.clip(0.5 * (left - right) / np.minimum(left - 2 * middle + right, -1e-12), -1, 1)
        step = np.log(TIMES[1] / TIMES[0])
        return np.where(best_P == 0, 0.0, np.exp(np.log(TIMES[middle_P]) + shift * step))


@cache
def _log_transitions(model: SubstitutionModel, shape: float | None) -> Floats:
    """(K × K, T) of `TIMES`."""
    return np.log(model.transitions(TIMES, shape)).reshape(len(TIMES), -1).T


@cache
def fixed_model(alphabet: PhylogenyAlphabet) -> SubstitutionModel:
    """LG for proteins; for DNA that of Kimura (1980) with transitions 2.7 times as fast as transversions."""
    if alphabet is PhylogenyAlphabet.DNA:
        rates = np.array([[0, 1, 2.7, 1], [1, 0, 1, 2.7], [2.7, 1, 0, 1], [1, 2.7, 1, 0]])
        return SubstitutionModel(rates, np.ones(4))
    values = np.array(_LE_GASCUEL.read_text().split(), dtype=float)
    exchangeabilities = np.zeros((20, 20))
    exchangeabilities[np.tril_indices(20, -1)] = values[:-20]
    return SubstitutionModel(exchangeabilities + exchangeabilities.T, values[-20:])


def random_nucleotide_model(random: np.random.Generator) -> SubstitutionModel:
    """A general time-reversible model (Tavaré 1986), transitions 2.7 times (median) as fast as transversions."""
    exchangeabilities = random.lognormal(0.0, 0.4, (4, 4))
    exchangeabilities[[0, 1], [2, 3]] *= random.lognormal(1.0, 0.5)
    upper = np.triu(exchangeabilities, 1)
    return SubstitutionModel(upper + upper.T, random.dirichlet([10.0] * 4))


def pair_counts(codes_NL: Codes, letters: int) -> Floats:
    """(P, K, K) numbers of sites by the letters of both sequences; codes from `letters` on do not count."""
    known_NKL = (codes_NL[:, None] == np.arange(letters, dtype=np.uint8)[:, None]).astype(np.float64)
    rows = [
        (known_KL @ known_NKL[row + 1 :].reshape(-1, codes_NL.shape[1]).T).reshape(letters, -1, letters)
        for row, known_KL in enumerate(known_NKL[:-1])
    ]
    return np.concatenate(rows, axis=1).swapaxes(0, 1)


def gamma_distances(codes_NL: Codes, alphabet: PhylogenyAlphabet) -> Floats:
    """(P,) likeliest distances under `fixed_model` with rates of `GAMMA_SHAPE`; codes_NL: places in `LETTERS`."""
    return fixed_model(alphabet).likeliest_distances(
        pair_counts(codes_NL, len(LETTERS[alphabet]) - 2), GAMMA_SHAPE
    )


def simple_distances(codes_NL: Codes, alphabet: PhylogenyAlphabet) -> Mapping[str, Floats]:
    """(P,) distances by method: what a trained model is held against. Saturated pairs, whose logarithm does not
    exist, get the distance of almost saturated ones."""
    counts_PKK = pair_counts(codes_NL, len(LETTERS[alphabet]) - 2)
    shares_PKK = counts_PKK / np.maximum(1.0, counts_PKK.sum((1, 2), keepdims=True))
    differing_P = shares_PKK.sum((1, 2)) - shares_PKK.trace(axis1=1, axis2=2)
    gamma_P = gamma_distances(codes_NL, alphabet)
    if alphabet is PhylogenyAlphabet.PROTEIN:
        return {
            "Kimura 1983": -np.log(np.maximum(1 - differing_P - differing_P**2 / 5, 0.05)),
            "LG, largest likelihood": fixed_model(alphabet).likeliest_distances(counts_PKK),
            "LG+Γ, largest likelihood": gamma_P,
        }
    transitions_P = sum(shares_PKK[:, i, j] for i, j in ((0, 2), (2, 0), (1, 3), (3, 1)))
    transversions_P = differing_P - transitions_P
    first_P, second_P = 1 - 2 * transitions_P - transversions_P, 1 - 2 * transversions_P
    return {
        "JC": -0.75 * np.log(np.maximum(1 - 4 / 3 * differing_P, 0.01)),
        "K80": -0.5 * np.log(np.maximum(first_P, 0.01)) - 0.25 * np.log(np.maximum(second_P, 0.01)),
        "K80+Γ, largest likelihood": gamma_P,
    }
