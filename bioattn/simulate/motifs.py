"""Motifs to plant, with a minimal edit distance between them on both strands.

A motif is a position probability matrix. Two kinds are made: a *consensus* whose letters are substituted at one
rate (every position alike), and a *matrix* with an uneven information profile like those of JASPAR: a sharp core,
vaguer ends, some positions that accept two bases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import SettingsError
from bioattn.formats.meme import position_information
from bioattn.formats.nucleotides import reverse_complement

BASES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovBackground:
    """A Markov chain over the bases of DNA."""

    name: str
    order: int
    """Bases the next one depends on."""
    transitions: tuple[tuple[float, float, float, float], ...]
    """4**order rows: probability of A, C, G, T after each context, contexts in the order AA, AC, AG, AT, CA, …
    (the last letter of the context is the nearest one). Rows need not sum to 1 exactly."""

    def sample(self, rng: np.random.Generator, count: int, length: int) -> NDArray[np.uint8]:
        """Draw `count` independent sequences of `length` bases; uint8 codes, shape (count, length).

        Each sequence starts from `order` bases drawn alike that are thrown away after a run-in of 16 bases.
        """
        run_in = 16 if self.order else 0
        cumulative = np.cumsum(np.array(self.transitions), axis=1)
        cumulative /= cumulative[:, -1:]
        draws = rng.random((run_in + length, count))
        codes = np.empty((run_in + length, count), dtype=np.uint8)
        contexts = len(self.transitions)
        state = (rng.random(count) * contexts).astype(np.int64)
        for position, draw in enumerate(draws):
            base = (draw[:, None] >= cumulative[state, :-1]).sum(axis=1)
            codes[position] = base
            state = (state * BASES + base) % contexts
        return np.ascontiguousarray(codes[run_in:].T)

    @classmethod
    def fitted(cls, codes_GL: NDArray[np.uint8], order: int) -> "MarkovBackground":
        """The chain of some sequences, each word of order + 1 bases counted once more than it occurs.

        codes_GL: A=0 C=1 G=2 T=3; words with another code are left out.
        """
        words = kmer_numbers(codes_GL, order + 1)
        counts = np.bincount(words[words >= 0], minlength=BASES ** (order + 1)).reshape(-1, BASES) + 1.0
        rows = counts / counts.sum(1, keepdims=True)
        return cls(name=f"order {order}", order=order, transitions=tuple(map(tuple, rows.tolist())))

    def nats(self, codes_GL: NDArray[np.uint8]) -> NDArray[np.float64]:
        """-ln of the probability of each base given those before it, (sequences, length - order); NaN at words
        with an unknown base."""
        words = kmer_numbers(codes_GL, self.order + 1)
        nats = -np.log(np.array(self.transitions).ravel())[np.maximum(words, 0)]
        return np.where(words >= 0, nats, np.nan)


def kmer_numbers(codes_GL: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    """The word of `width` bases at each place as a number, the first base highest; -1 with an unknown base."""
    codes = codes_GL.astype(np.int64)
    codes[codes >= BASES] = -(BASES**width)  # more than the others add up to
    places = codes.shape[1] - width + 1
    words = codes[:, :places]
    for first in range(1, width):
        words = BASES * words + codes[:, first : first + places]
    return np.maximum(words, -1)


UNIFORM = MarkovBackground(name="uniform", order=0, transitions=((0.25, 0.25, 0.25, 0.25),))

YEAST_UPSTREAM = MarkovBackground(
    name="yeast upstream, order 2",
    order=2,
    transitions=(
        (0.411, 0.153, 0.194, 0.242),  # after AA
        (0.353, 0.182, 0.170, 0.295),
        (0.344, 0.201, 0.193, 0.261),
        (0.339, 0.172, 0.162, 0.327),
        (0.344, 0.179, 0.183, 0.294),  # after CA
        (0.321, 0.194, 0.163, 0.322),
        (0.290, 0.226, 0.190, 0.294),
        (0.236, 0.191, 0.191, 0.382),
        (0.408, 0.147, 0.188, 0.257),  # after GA
        (0.337, 0.192, 0.174, 0.296),
        (0.321, 0.216, 0.188, 0.274),
        (0.302, 0.160, 0.202, 0.336),
        (0.305, 0.182, 0.168, 0.345),  # after TA
        (0.318, 0.191, 0.153, 0.338),
        (0.306, 0.208, 0.191, 0.296),
        (0.214, 0.197, 0.174, 0.415),
    ),
)


MAX_DRAWS = 1_000
"""Candidates drawn for one motif before the demanded edit distance is lowered by one."""

MIN_DISTINCT_BASES = 3

# Matrices: lengths and mean information as in JASPAR 2024 fungi and plants, whose medians are 7-8 positions and
# 11-12 bits, with the middle half of positions between 0.9 and 2 bits; ours are longer, since they are sought
# among more bases.
CORE_BITS = 1.85
END_BITS = 0.7
BITS_SPREAD = 0.3
TWO_BASE_SHARE = 0.15


def consensus_matrix(codes: NDArray[np.uint8], substitution_rate: float) -> NDArray[np.float64]:
    """Probabilities of a consensus whose every base is replaced by one of the others at `substitution_rate`."""
    matrix = np.full((codes.size, 4), substitution_rate / 3)
    matrix[np.arange(codes.size), codes] = 1 - substitution_rate
    return matrix


def profile_matrix(rng: np.random.Generator, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities around the consensus `codes` with an uneven information profile.

    The information of a position falls from `CORE_BITS` in the middle to `END_BITS` at both ends, give or take
    `BITS_SPREAD`; one position in seven shares its first place between two bases and then has 1 bit at most.
    """
    width = codes.size
    distance = np.abs(np.linspace(-1, 1, width))
    bits = CORE_BITS + (END_BITS - CORE_BITS) * distance**2 + BITS_SPREAD * (2 * rng.random(width) - 1)
    two_bases = rng.random(width) < TWO_BASE_SHARE
    second = (codes + 1 + (3 * rng.random(width)).astype(np.int64)) % 4
    matrix = np.empty((width, 4))
    for position in range(width):
        favoured = [int(codes[position])]
        if two_bases[position]:
            favoured.append(int(second[position]))
        # The information grows with the share of the favoured bases, so bisection finds it.
        low, high = len(favoured) / 4, 1.0
        for _ in range(40):
            share = (low + high) / 2
            matrix[position] = (1 - share) / (4 - len(favoured))
            matrix[position, favoured] = share / len(favoured)
            if float(position_information(matrix[position])) < bits[position]:
                low = share
            else:
                high = share
        if two_bases[position]:
            matrix[position, favoured[0]] += 0.02  # keeps the consensus the first of the two
    matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def edit_distance(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> int:
    """Levenshtein distance: substitutions, insertions and deletions that turn one into the other."""
    previous = list(range(second.size + 1))
    for row, base in enumerate(first.tolist(), start=1):
        current = [row]
        for column, other in enumerate(second.tolist(), start=1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (base != other)))
        previous = current
    return previous[-1]


def separated_consensuses(
    rng: np.random.Generator, widths: Sequence[int]
) -> tuple[list[NDArray[np.uint8]], int]:
    """Draw consensus sequences of the given widths, far from each other and each other's reverse complement.

    Returns the uint8 codes and a distance: any two, on either strand, are at least so many edits apart, and so
    is a motif from its own reverse complement (else the strand of a site would mean little). The distance begins
    at half the smallest width and is lowered by one whenever `MAX_DRAWS` candidates fail.

    Raises: SettingsError when motifs this short cannot be told apart.
    """
    distance = min(widths) // 2
    chosen: list[NDArray[np.uint8]] = []
    both_strands: list[NDArray[np.uint8]] = []
    for number, width in enumerate(widths, start=1):
        draws = 0
        while True:
            draws += 1
            if draws > MAX_DRAWS:
                distance, draws = distance - 1, 0
                if distance < 2:
                    raise SettingsError(
                        f"only {number - 1} of {len(widths)} motifs of {min(widths)} bp differ by 2 edits on both "
                        "strands; ask for fewer treatments, pairs or decoys, or for longer motifs"
                    )
            candidate = (4 * rng.random(width)).astype(np.uint8)
            if len(set(candidate.tolist())) < MIN_DISTINCT_BASES:
                continue
            others = [reverse_complement(candidate), *both_strands]
            if all(edit_distance(candidate, other) >= distance for other in others):
                break
        chosen.append(candidate)
        both_strands += [candidate, reverse_complement(candidate)]
    return chosen, distance
