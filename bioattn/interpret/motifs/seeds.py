"""Words that seqlets hold more often than control windows: where the search for motifs begins.

A word is two triplets with 0 to `MAX_GAP` bases between them, so that a motif of two halves (Gal4: CGG, eleven
bases, CCG) has its seed as well as a short one. A word and its reverse complement are one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from bioattn.formats.nucleotides import UNKNOWN

MAX_GAP = 11
TRIPLETS = 64
MIN_SEQLETS = 8
"""A word in fewer seqlets is not looked at."""
_COMPLEMENT = np.arange(TRIPLETS)
_COMPLEMENT = (3 - _COMPLEMENT % 4) * 16 + (3 - _COMPLEMENT // 4 % 4) * 4 + (3 - _COMPLEMENT // 16)
"""The reverse complement of each triplet, numbered with the first base highest."""
_SMALL = 1e-300


class Seed(NamedTuple):
    """An enriched word."""

    bases: tuple[int, ...]
    """Codes of its six bases."""
    gap: int
    """Bases between the first three and the last three."""
    log_p: float
    """Natural logarithm of the hypergeometric p-value of its enrichment, times the number of words that occur."""


def enriched_words(seqlets_SW: NDArray[np.uint8], controls_CW: NDArray[np.uint8], number: int) -> list[Seed]:
    """The `number` words most enriched in seqlets, the surest first.

    A word counts once a window, on either strand. Words with N do not exist.
    """
    seqlets, controls = _triplets(seqlets_SW), _triplets(controls_CW)
    words: list[tuple[float, int, int]] = []
    tested = 0
    for gap in range(min(MAX_GAP, seqlets_SW.shape[1] - 6) + 1):
        here, there = _windows_with(seqlets, gap), _windows_with(controls, gap)
        tested += int(np.count_nonzero(here + there))
        expected = (here + there) * len(seqlets) / (len(seqlets) + len(controls))
        candidates = np.flatnonzero((here >= MIN_SEQLETS) & (here > 1.2 * expected))
        log_tail = log_surplus(here[candidates], there[candidates], len(seqlets), len(controls))
        words += [(float(value), gap, int(word)) for value, word in zip(log_tail, candidates, strict=True)]
    words.sort()
    return [
        Seed(
            tuple(int(word) // 4**place % 4 for place in range(5, -1, -1)),
            gap,
            value + float(np.log(max(1, tested))),
        )
        for value, gap, word in words[:number]
    ]


def log_surplus(
    here: NDArray[np.integer], there: NDArray[np.integer], seqlets: int, controls: int
) -> NDArray[np.float64]:
    """Natural logarithm of the hypergeometric chance of at least `here` of `seqlets` windows with a word.

    there: how many of `controls` windows have it.
    """
    tail = hypergeom.sf(here - 1, seqlets + controls, here + there, seqlets)
    expected = (here + there) * seqlets / max(1, seqlets + controls)
    # Where the tail is below what floats can hold, the surplus still tells which word is first.
    beyond = np.log(_SMALL) - np.maximum(here - expected, 0)
    logs: NDArray[np.float64] = np.where(tail > _SMALL, np.log(np.maximum(tail, _SMALL)), beyond)
    return logs


def _triplets(codes_SW: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Number of the triplet at each place, (S, W - 2); -1 where it holds an N."""
    codes = codes_SW.astype(np.int32)
    triplets = codes[:, :-2] * 16 + codes[:, 1:-1] * 4 + codes[:, 2:]
    known = codes_SW < UNKNOWN
    triplets[~(known[:, :-2] & known[:, 1:-1] & known[:, 2:])] = -1
    return triplets


def _windows_with(triplets: NDArray[np.int32], gap: int) -> NDArray[np.int64]:
    """How many windows hold each word of this gap, (4096,); a word and its complement count as the smaller."""
    first, second = triplets[:, : -(3 + gap)], triplets[:, 3 + gap :]
    forward = first * TRIPLETS + second
    backward = _COMPLEMENT[second] * TRIPLETS + _COMPLEMENT[first]
    word = np.minimum(forward, backward)
    row = np.broadcast_to(np.arange(len(triplets))[:, None], word.shape)
    known = (first >= 0) & (second >= 0)
    pairs = np.unique(row[known].astype(np.int64) * TRIPLETS**2 + word[known])
    return np.bincount(pairs % TRIPLETS**2, minlength=TRIPLETS**2)
