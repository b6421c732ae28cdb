"""Planting motif sites into sequences on either strand, without further copies by chance."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.motif import Motif
from bioattn.formats.nucleotides import reverse_complement

MIN_GAP = 1
"""Bases between neighbouring sites, so that a chance copy across two sites can be broken without touching them."""

SCAN_BLOCK = 2048
"""Sequences scanned for motif copies at a time, to keep memory flat."""


def plant_motifs(
    rng: np.random.Generator,
    codes: NDArray[np.uint8],
    motifs: Sequence[Motif],
    carried: NDArray[np.bool_],
) -> list[list[tuple[int, int, str]]]:
    """Write one site of every carried motif into each sequence, in place.

    codes: (sequences, length). carried: (sequences, motifs). The order of the sites in a sequence, their places
    and strands are drawn alike; sites are `MIN_GAP` or more bases apart.

    Returns per sequence (motif number, 0-based start, strand), ordered by start; a site on `-` reads as the motif
    after reverse complementing. A sequence must have room for all its sites.
    """
    count, length = codes.shape
    widths = np.array([motif.width for motif in motifs])
    minus = rng.random(carried.shape) < 0.5
    instances = []
    for number, motif in enumerate(motifs):
        forward = motif.sample(rng, count)
        instances.append(np.where(minus[:, number, None], reverse_complement(forward), forward))
    order_keys = rng.random(carried.shape)
    place_draws = rng.random(carried.shape)
    planted: list[list[tuple[int, int, str]]] = []
    for sequence in range(count):
        chosen = np.flatnonzero(carried[sequence])
        chosen = chosen[np.argsort(order_keys[sequence, chosen])]
        taken = widths[chosen] + MIN_GAP
        free = length + MIN_GAP - int(taken.sum())
        offsets = np.sort((place_draws[sequence, chosen] * (free + 1)).astype(np.int64))
        starts = offsets + np.concatenate([[0], np.cumsum(taken)[:-1]]).astype(np.int64)[: chosen.size]
        sites = []
        for number, start in zip(chosen.tolist(), starts.tolist(), strict=True):
            codes[sequence, start : start + widths[number]] = instances[number][sequence]
            sites.append((number, start, "-" if minus[sequence, number] else "+"))
        planted.append(sites)
    return planted


def find_copies(codes: NDArray[np.uint8], word: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Find exact copies of `word` on the given strand of `codes` (sequences, length): rows (sequence, start)."""
    windows = codes.shape[1] - word.size + 1
    places = []
    for first in range(0, codes.shape[0], SCAN_BLOCK):
        block = codes[first : first + SCAN_BLOCK]
        match = np.ones((block.shape[0], windows), dtype=np.bool_)
        for position, base in enumerate(word.tolist()):
            match &= block[:, position : position + windows] == base
        places.append(np.argwhere(match) + np.array([first, 0]))
    return np.concatenate(places)


def remove_chance_copies(
    rng: np.random.Generator,
    codes: NDArray[np.uint8],
    words: Mapping[int, NDArray[np.uint8]],
    planted: Sequence[Sequence[tuple[int, int, str]]],
    widths: Sequence[int],
) -> int:
    """Break every exact copy of a word, on either strand, that was not planted; in place.

    words: consensus codes by motif number. planted: as from `plant_motifs`. One base outside all planted sites is
    replaced in each copy, and the scan repeated until none is left. A copy made wholly of one planted site's bases
    (a motif substituted into another) stays.

    Returns the copies broken.
    """
    protected = np.zeros(codes.shape, dtype=np.bool_)
    meant: set[tuple[int, int, int]] = set()
    for sequence, sites in enumerate(planted):
        for number, start, _ in sites:
            protected[sequence, start : start + widths[number]] = True
            meant.add((sequence, number, start))
    broken = 0
    while True:
        changed = 0
        for number, word in words.items():
            for strand_word in (word, reverse_complement(word)):
                for sequence, start in find_copies(codes, strand_word).tolist():
                    free = np.flatnonzero(~protected[sequence, start : start + word.size])
                    if (sequence, number, start) in meant or not free.size:
                        continue
                    position = start + int(free[int(rng.random() * free.size)])
                    codes[sequence, position] = (codes[sequence, position] + 1 + int(3 * rng.random())) % 4
                    changed += 1
        broken += changed
        if not changed:
            return broken
