"""Motifs in seqlets: an enriched word is grown into a matrix, as STREME does it (Bailey 2021).

A word is two triplets with 0 to `MAX_GAP` bases between them, so that a motif of two halves (Gal4: CGG, eleven
bases, CCG) has its seed as well as a short one. A word and its reverse complement are one.

Seqlets and control windows are scored with the matrix; the sites of the seqlets above the score that tells both
apart best make the next matrix, as long as that is the better one. Among several sites of a seqlet the map
decides along with the score. A motif's sites are then masked, and the search begins again. (Expectation
maximisation, which explains all seqlets at once, blurs the several words of a model into one vague matrix.)

Motifs that are found again and again, under several treatments, are one (`merge_motifs`). Two matrices are as
alike as the cosine of their information-weighted columns in the best alignment without gaps, on either strand;
columns that stand alone count against it. Average linkage joins matrices until clusters are less alike than
`SAME`.

Shapes: S seqlets, C controls, W bases of a window, K positions of a motif, N starts or matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import hypergeom

from bioattn.formats.meme import UNIFORM_BACKGROUND, position_information
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.promoters.kmers import distinct_values

MAX_GAP = 11
TRIPLETS = 64
MIN_SEQLETS = 8
_COMPLEMENT = np.arange(TRIPLETS)
_COMPLEMENT = (3 - _COMPLEMENT % 4) * 16 + (3 - _COMPLEMENT // 4 % 4) * 4 + (3 - _COMPLEMENT // 16)
"""The reverse complement of each triplet, numbered with the first base highest."""
_SMALL = 1e-300


class Seed(NamedTuple):
    """An enriched word."""

    bases: tuple[int, ...]
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
    return np.where(tail > _SMALL, np.log(np.maximum(tail, _SMALL)), beyond)


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
    pairs = distinct_values(row[known].astype(np.int64) * TRIPLETS**2 + word[known])
    return np.bincount(pairs % TRIPLETS**2, minlength=TRIPLETS**2)


FLANK = 4
"""Positions that are tried on each side of a word."""
PAD = 8
"""Bases on each side of a seqlet that a site may reach into but not lie in."""
SEED_SHARE = 0.8
"""First guess of the probability of a word's bases."""
MAX_ROUNDS = 10
PRIOR_FLOOR = 0.05
"""A place where the map is low is as likely as this share of the seqlet's mean place."""
PSEUDO_SITES = 2.0
EDGE_BITS = 0.3
"""Positions below this are cut off at both ends of a motif."""
MIN_WIDTH, MIN_BITS = 4, 5.0
LEVEL = 0.001
"""Largest p-value of a word (times words) and of a motif (times thresholds tried). Some hundred treatments are
searched: of 1 in 100, windows drawn at random gave a motif in 2 of 80 searches."""
SEEDS_TRIED = 3
THRESHOLDS = 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundMotif:
    """A motif found in seqlets."""

    probabilities: NDArray[np.float64]
    """(K, 4)."""
    seqlets: int
    share: float
    control_share: float
    log_p: float
    """Natural logarithm of the p-value of the difference (hypergeometric, times thresholds tried)."""
    threshold: float
    """Score of the least site, in nats."""


def discover_motifs(
    seqlets_SW: NDArray[np.uint8],
    prior_SW: NDArray[np.float32],
    controls_CW: NDArray[np.uint8],
    background: NDArray[np.float64],
    *,
    max_motifs: int,
) -> list[FoundMotif]:
    """Up to `max_motifs` motifs that seqlets hold more often than control windows, in the order they are found.

    seqlets_SW, controls_CW: windows, with `PAD` bases on each side that words are not sought in; N beyond a
    promoter's ends. prior_SW: not negative, where in a seqlet the map is high.
    background: frequencies of A, C, G, T.
    """
    codes, controls = seqlets_SW.copy(), controls_CW.copy()
    # How likely a site is centred at each base, next to the seqlet's mean.
    prior = prior_SW / np.maximum(prior_SW.mean(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    log_prior = np.log(np.maximum(prior, PRIOR_FLOOR), dtype=np.float64)
    core = slice(PAD, codes.shape[1] - PAD)
    motifs: list[FoundMotif] = []
    while len(motifs) < max_motifs and len(codes):
        seeds = enriched_words(codes[:, core], controls[:, core], SEEDS_TRIED)
        sure = [seed for seed in seeds if seed.log_p < np.log(LEVEL)]
        grown = [_grown(codes, controls, log_prior, seed, background) for seed in sure]
        fit = [motif for motif in grown if motif is not None and motif.log_p < np.log(LEVEL)]
        if not fit:
            break
        best = min(fit, key=lambda motif: motif.log_p)
        motifs.append(best)
        log_odds = _log_odds(best.probabilities, background)
        for windows in (codes, controls):
            _mask(windows, log_odds, best.threshold)
    return motifs


def _grown(
    codes: NDArray[np.uint8],
    controls: NDArray[np.uint8],
    log_prior: NDArray[np.float64],
    seed: Seed,
    background: NDArray[np.float64],
) -> FoundMotif | None:
    """The motif that a word grows into; None when it is too short or vague."""
    matrix = np.tile(background, (6 + seed.gap + 2 * FLANK, 1))
    for number, base in enumerate(seed.bases):
        place = FLANK + number + (seed.gap if number > 2 else 0)
        matrix[place] *= 1 - SEED_SHARE
        matrix[place, base] += SEED_SHARE
    best: FoundMotif | None = None
    for _ in range(MAX_ROUNDS):
        log_odds = _log_odds(matrix, background)
        here, sites = _best_sites(codes, log_odds, log_prior)
        there, _ = _best_sites(controls, log_odds, None)
        candidate = _enrichment(matrix, here, there)
        if candidate is None or (best is not None and candidate.log_p >= best.log_p):
            break
        best = candidate
        chosen = sites[here >= candidate.threshold]
        counts = np.stack([(chosen == base).sum(axis=0) for base in range(4)], axis=1)
        counts = counts + PSEUDO_SITES * background
        matrix = counts / counts.sum(axis=1, keepdims=True)
    trimmed = None if best is None else trim_vague_ends(best.probabilities)
    if trimmed is None:
        return None
    log_odds = _log_odds(trimmed, background)
    here, _ = _best_sites(codes, log_odds, log_prior)
    there, _ = _best_sites(controls, log_odds, None)
    return _enrichment(trimmed, here, there)


def trim_vague_ends(
    probabilities: NDArray[np.float64], least_bits: float = MIN_BITS
) -> NDArray[np.float64] | None:
    """A matrix (K, 4) without positions of less than `EDGE_BITS` at its ends; None when too little is left."""
    telling = np.flatnonzero(position_information(probabilities) >= EDGE_BITS)
    if not telling.size:
        return None
    kept = probabilities[telling[0] : telling[-1] + 1]
    enough = len(kept) >= MIN_WIDTH and float(position_information(kept).sum()) >= least_bits
    return kept if enough else None


def _enrichment(
    probabilities: NDArray[np.float64], here: NDArray[np.float64], there: NDArray[np.float64]
) -> FoundMotif | None:
    """The motif at the threshold that tells seqlets from controls best, by the score of the site of each.

    None when no seqlet has a site that fits the motif better than the background.
    """
    here, there = np.sort(here), np.sort(there)
    positive = here[here > 0]
    if not positive.size:
        return None
    levels = np.unique(positive[np.linspace(0, positive.size - 1, THRESHOLDS).astype(np.intp)])
    with_site = here.size - np.searchsorted(here, levels)
    control_with = there.size - np.searchsorted(there, levels)
    log_p = log_surplus(with_site, control_with, here.size, there.size) + np.log(levels.size)
    best = int(log_p.argmin())
    return FoundMotif(
        probabilities=probabilities,
        seqlets=int(with_site[best]),
        share=float(with_site[best] / here.size),
        control_share=float(control_with[best] / max(1, there.size)),
        log_p=float(log_p[best]),
        threshold=float(levels[best]),
    )


def _best_sites(
    codes: NDArray[np.uint8], log_odds: NDArray[np.float64], log_prior: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """The site of each window: its score without the prior, (S,), and its bases read along the motif, (S, K).

    Where the score is -inf the window has no site.
    """
    width = len(log_odds)
    forward, backward = _strand_scores(codes, log_odds)
    both = np.stack([forward, backward], axis=1)
    judged = both
    if log_prior is not None:
        judged = both + log_prior[:, None, width // 2 : width // 2 + both.shape[2]]
    rows = np.arange(len(codes))
    strand, start = np.divmod(judged.reshape(len(codes), -1).argmax(axis=1), both.shape[2])
    place = start[:, None] + np.arange(width)
    sites = codes[rows[:, None], place]
    turned = strand == 1
    sites[turned] = np.where(sites[turned] < UNKNOWN, 3 - np.minimum(sites[turned], 3), UNKNOWN)[:, ::-1]
    return both[rows, strand, start], sites


def _strand_scores(
    codes: NDArray[np.uint8], log_odds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of every start, (S, N), on either strand; -inf where the middle lies in the pads.

    An N within a site counts as the worst base of its position.
    """
    width = len(log_odds)
    starts = codes.shape[1] - width + 1
    middle = np.arange(starts) + width / 2
    outside = (middle < PAD) | (middle > codes.shape[1] - PAD)
    scores = []
    for matrix in (log_odds, log_odds[::-1, ::-1]):
        table = np.hstack([matrix, matrix.min(axis=1, keepdims=True)])
        total = np.zeros((len(codes), starts))
        for position in range(width):
            total += table[position][codes[:, position : position + starts]]
        total[:, outside] = -np.inf
        scores.append(total)
    return scores[0], scores[1]


def _mask(codes: NDArray[np.uint8], log_odds: NDArray[np.float64], threshold: float) -> None:
    """Make N of all sites that reach the threshold, in place."""
    for scores in _strand_scores(codes, log_odds):
        row, start = np.nonzero(scores >= threshold)
        for position in range(len(log_odds)):
            codes[row, start + position] = UNKNOWN


def _log_odds(probabilities: NDArray[np.float64], background: NDArray[np.float64]) -> NDArray[np.float64]:
    smoothed = (probabilities + 0.01 * background) / 1.01
    return np.log(smoothed / background)


SAME = 0.85
"""Matrices this much alike on average are one motif."""


class MergedMotif(NamedTuple):
    """A motif of one or more matrices."""

    probabilities: NDArray[np.float64]
    """(K, 4)."""
    sites: int
    members: tuple[int, ...]
    """Numbers of the matrices, that of most sites first."""


def merge_motifs(matrices: Sequence[NDArray[np.float64]], sites: Sequence[int]) -> list[MergedMotif]:
    """Cluster matrices (W, 4) made of so many sites each; the motif of most sites first."""
    if not matrices:
        return []
    weighted = [information_weighted(matrix) for matrix in matrices]
    labels = np.zeros(1, dtype=np.int32)
    if len(weighted) > 1:
        distance = 1 - similarities(weighted)
        np.fill_diagonal(distance, 0)
        labels = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - SAME, "distance")
    merged = []
    for label in np.unique(labels):
        members = sorted(np.flatnonzero(labels == label).tolist(), key=lambda n: (-sites[n], n))
        probabilities = _merged(
            [matrices[n] for n in members], [weighted[n] for n in members], [sites[n] for n in members]
        )
        merged.append(MergedMotif(probabilities, sum(sites[n] for n in members), tuple(members)))
    return sorted(merged, key=lambda motif: (-motif.sites, motif.members))


def information_weighted(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities less the background, times the position's bits, divided by the root of the sum of squares."""
    weighted = (matrix - UNIFORM_BACKGROUND) * position_information(matrix)[:, None]
    norm = float(np.sqrt(np.sum(weighted**2)))
    return weighted / max(norm, np.finfo(np.float64).tiny)


def best_alignment(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, int, bool]:
    """Where `second` lies on `first`: cosine, offset of its first position, and whether turned round.

    Both as of `information_weighted`. Ties go to the strand as it stands and the smaller offset.
    """
    best = (-np.inf, 0, False)
    for turned in (False, True):
        other = second[::-1, ::-1] if turned else second
        for offset in range(1 - len(other), len(first)):
            low, high = max(0, offset), min(len(first), offset + len(other))
            value = float(np.sum(first[low:high] * other[low - offset : high - offset]))
            if value > best[0] + 1e-12:
                best = value, offset, turned
    return best


def similarities(weighted: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Cosine of every two matrices in their best alignment, (N, N); 0 where side by side is best."""
    number, width = len(weighted), max(len(matrix) for matrix in weighted)
    plain, turned = np.zeros((number, width, 4)), np.zeros((number, width, 4))
    for row, matrix in enumerate(weighted):
        plain[row, : len(matrix)] = matrix
        turned[row, width - len(matrix) :] = matrix[::-1, ::-1]
    best = np.zeros((number, number))
    for shift in range(1 - width, width):
        low, high = max(0, shift), min(width, width + shift)
        here = plain[:, low:high].reshape(number, -1)
        for other in (plain, turned):
            there = other[:, low - shift : high - shift].reshape(number, -1)
            np.maximum(best, here @ there.T, out=best)
    return np.minimum(np.maximum(best, best.T), 1.0)


def _merged(
    matrices: Sequence[NDArray[np.float64]], weighted: Sequence[NDArray[np.float64]], sites: Sequence[int]
) -> NDArray[np.float64]:
    """The mean of matrices weighted by their sites, aligned to the first; positions nobody knows are uniform."""
    margin = max(len(matrix) for matrix in matrices)
    counts = np.zeros((len(matrices[0]) + 2 * margin, 4))
    for matrix, columns, number in zip(matrices, weighted, sites, strict=True):
        _, offset, turned = best_alignment(weighted[0], columns)
        placed = np.tile(np.array(UNIFORM_BACKGROUND), (len(counts), 1))
        placed[margin + offset : margin + offset + len(matrix)] = matrix[::-1, ::-1] if turned else matrix
        counts += number * placed
    mean = counts / counts.sum(axis=1, keepdims=True)
    trimmed = trim_vague_ends(mean, 0.0)
    return np.asarray(matrices[0]) if trimmed is None else trimmed
