"""Where motifs match sequences, with exact p-values.

A site scores the sum of its log odds in bits, motif against background. The scores are rounded to 1/256 bit, so
that their distribution over random sites is a finite one and can be added up position by position (Staden 1989;
Touzet & Varré 2007): the p-value of a score is the exact chance that one site drawn from the background scores as
much or more on the strand at hand.
"""

import logging
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bioattn.formats.meme import Motif
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.choices import HIT_P_VALUE
from bioattn.interpret.position_maps import running_sums

LOGGER = logging.getLogger("bioattn")

SCORE_STEP = 1 / 256
"""Bits between neighbouring scores."""
PSEUDO_SITES = 1.0
"""Sites of background composition that are added to those of a motif, so that no base has probability 0."""
WORD = 6
"""Positions that one table look-up scores; 4^6 scores stay in a core's first cache."""
BLOCK_BASES = 1 << 16


def symmetric_background(background: ArrayLike) -> NDArray[np.float64]:
    """Positive frequencies of A, C, G, T of both strands together, shape (4,), sum 1."""
    frequencies = np.asarray(background, dtype=np.float64)
    return np.asarray((frequencies + frequencies[::-1]) / (2 * frequencies.sum()))


def base_composition(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Frequencies of A, C, G, T on both strands of `codes`, N left out, no base quite absent; shape (4,)."""
    counts = np.bincount(codes.ravel(), minlength=4)[:4] + 1.0
    return symmetric_background(counts)


class MotifScores:
    """A motif's scores and their distribution over sites drawn from a background.

    background: frequencies of A, C, G, T; taken as the mean of both strands, so that a motif and its reverse
    complement have one distribution.
    """

    def __init__(self, motif: Motif, background: ArrayLike) -> None:
        self.motif = motif
        self.background = symmetric_background(background)
        smoothed = motif.sites * motif.probabilities + PSEUDO_SITES * self.background
        odds = smoothed / ((motif.sites + PSEUDO_SITES) * self.background)
        self.matrix: NDArray[np.int64] = np.round(np.log2(odds) / SCORE_STEP).astype(np.int64)
        """Log odds of A, C, G, T at each position in steps of `SCORE_STEP` bits, shape (width, 4)."""

    @cached_property
    def _lowest(self) -> int:
        return int(self.matrix.min(axis=1).sum())

    @cached_property
    def tail(self) -> NDArray[np.float64]:
        """Chance of at least each score, from the lowest possible to the highest."""
        chance = np.ones(1)
        for row in self.matrix - self.matrix.min(axis=1, keepdims=True):
            grown = np.zeros(chance.size + int(row.max()))
            for base in range(4):
                grown[row[base] : row[base] + chance.size] += self.background[base] * chance
            chance = grown
        # From the rare end, so that small p-values keep their digits.
        return np.minimum(np.cumsum(chance[::-1])[::-1], 1.0)

    def p_values(self, scores: NDArray[np.integer]) -> NDArray[np.float64]:
        """p-values of scores that sites can have, in steps as `matrix`."""
        return self.tail[np.asarray(scores, dtype=np.int64) - self._lowest]

    def threshold(self, p_value: float) -> int | None:
        """The smallest score whose p-value is at most `p_value`; None when no site is so rare."""
        # A chance of exactly `p_value` has been rounded on its way here.
        place = int(np.searchsorted(-self.tail, -p_value * (1 + 1e-12), side="left"))
        return None if place == self.tail.size else self._lowest + place

    def word_tables(self, *, reverse: bool) -> list[NDArray[np.int32]]:
        """What each run of `WORD` positions scores, by word number; the last run is filled up with zeros.

        reverse: of the reverse complement. The number of a word has its first base as the highest digit, base 4.
        """
        matrix = self.matrix[::-1, ::-1] if reverse else self.matrix
        tables = []
        for start in range(0, len(matrix), WORD):
            run = np.zeros((WORD, 4), dtype=np.int64)
            run[: len(matrix) - start] = matrix[start : start + WORD]
            table = np.zeros(1, dtype=np.int64)
            for row in run:
                table = (table[:, None] + row).ravel()
            tables.append(table.astype(np.int32))
        return tables


def find_motif_hits(
    codes: NDArray[np.uint8],
    motifs: Sequence[Motif],
    *,
    background: ArrayLike | None = None,
    p_value: float = HIT_P_VALUE,
    best_up_to: float = 0.0,
) -> pd.DataFrame:
    """Find the sites of motifs on both strands whose p-value is at most `p_value`.

    codes: (N, L) bases 0-3, 4 for N, which no motif matches. background: frequencies of A, C, G, T; None = those
    of `codes`. best_up_to: a motif so short or vague that its best site is more likely than `p_value` has its best
    sites, where these are no more likely than this; else none, which is logged.

    Returns the columns row (of `codes`), motif (its name), start, end (0-based, half-open, in the row as it
    stands), strand, score (bits), p_value and number (of the motif in `motifs`), ordered by row, start, number and
    strand. A palindrome matches on both strands.
    """
    frequencies = base_composition(codes) if background is None else np.asarray(background, dtype=np.float64)
    scorers = [MotifScores(motif, frequencies) for motif in motifs]
    thresholds = [scorer.threshold(max(p_value, min(scorer.tail[-1], best_up_to))) for scorer in scorers]
    hopeless = [motif.name for motif, least in zip(motifs, thresholds, strict=True) if least is None]
    if hopeless:
        few = f"({', '.join(hopeless[:3])}{', …' if len(hopeless) > 3 else ''})"
        vague = f"{len(hopeless)} of {len(motifs)} motifs are too short or vague"
        LOGGER.info(f"{vague} for any site at p <= {p_value:g} {few}")
    tables = [[scorer.word_tables(reverse=reverse) for reverse in (False, True)] for scorer in scorers]
    parts = [np.empty((5, 0), dtype=np.int64)]
    rows_at_once = max(1, BLOCK_BASES // max(1, codes.shape[1]))
    for begin in range(0, len(codes), rows_at_once):
        block = codes[begin : begin + rows_at_once]
        words, is_unknown = _words(block), block >= UNKNOWN
        unknown = running_sums(is_unknown) if is_unknown.any() else None
        for number, (motif, least) in enumerate(zip(motifs, thresholds, strict=True)):
            if least is None or motif.width > block.shape[1]:
                continue
            for reverse in (0, 1):
                row, start, score = _block_hits(words, unknown, tables[number][reverse], motif.width, least)
                same = np.ones_like(row)
                parts.append(np.stack([row + begin, start, number * same, reverse * same, score]))
    row, start, number, reverse, score = np.hstack(parts)
    order = np.lexsort((reverse, number, start, row))
    row, start, number, reverse, score = (part[order] for part in (row, start, number, reverse, score))
    p_values = np.empty(row.size)
    for motif_number, scorer in enumerate(scorers):
        chosen = number == motif_number
        p_values[chosen] = scorer.p_values(score[chosen])
    widths = np.array([motif.width for motif in motifs], dtype=np.int64)
    return pd.DataFrame(
        {
            "row": row,
            "motif": np.array([motif.name for motif in motifs], dtype=object)[number],
            "start": start,
            "end": start + widths[number],
            "strand": np.where(reverse == 1, "-", "+").astype(object),
            "score": score * SCORE_STEP,
            "p_value": p_values,
            "number": number,
        }
    )


def _words(block: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Number of the `WORD` bases from each position on; N counts as A, and so does what lies behind the end."""
    padded = np.zeros((block.shape[0], block.shape[1] + WORD - 1), dtype=np.intp)
    np.copyto(padded[:, : block.shape[1]], block, where=block < UNKNOWN)
    words = np.zeros(block.shape, dtype=np.intp)
    for offset in range(WORD):
        words *= 4
        words += padded[:, offset : offset + block.shape[1]]
    return words


def _block_hits(
    words: NDArray[np.intp],
    unknown: NDArray[np.float64] | None,
    tables: list[NDArray[np.int32]],
    width: int,
    least: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row, start and score of the sites that score at least `least`, each shape (hits,).

    unknown: how many N stand before each position, (rows, length + 1); None where there are none.
    """
    starts = words.shape[1] - width + 1
    scores = tables[0][words[:, :starts]]
    for number, table in enumerate(tables[1:], start=1):
        scores += table[words[:, number * WORD : number * WORD + starts]]
    row, start = np.nonzero(scores >= least)
    if unknown is not None:
        known = unknown[row, start + width] == unknown[row, start]
        row, start = row[known], start[known]
    return row, start, scores[row, start].astype(np.int64)
