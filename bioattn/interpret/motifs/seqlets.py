"""Seqlets: the short stretches of promoters that a map (attention or attribution) points at.

A map says where a model looked, a little blurred: an attended bin stands for all the bases its key sees. A seqlet
is therefore wider than the motif in it, and keeps the map as the prior of where in it the motif lies.

Shapes: B promoters of a block, L bases, S seqlets, W bases of a seqlet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from bioattn.formats.nucleotides import UNKNOWN
from bioattn.promoters.homology import distinct_kmers, is_low_complexity

_Number = TypeVar("_Number", bound=np.generic)

SMOOTHED_BASES = 9
"""Peaks are sought in the map's mean over so many bases, about a motif."""
SHARED_BASES = 14
"""Windows that share so many bases in a row, not a simple repeat, are copies of one another: one is kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Places:
    """Positions of seqlets: arrays of shape (S,), best first."""

    gene: NDArray[np.int32]
    centre: NDArray[np.int32]
    """Base in the middle, from the window's first base."""
    score: NDArray[np.float32]
    """How far the map rises above what is usual at this place."""

    def __len__(self) -> int:
        return int(self.gene.size)

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> "Places":
        return Places(gene=self.gene[chosen], centre=self.centre[chosen], score=self.score[chosen])


def usual_map(blocks: Iterable[NDArray[np.floating]], length: int) -> NDArray[np.float64]:
    """Mean of a map over promoters at each base, shape (L,); blocks: (B, L)."""
    total, number = np.zeros(length), 0
    for block_BL in blocks:
        total += block_BL.sum(axis=0, dtype=np.float64)
        number += len(block_BL)
    return total / max(1, number)


def find_peaks(
    map_BL: NDArray[np.floating],
    usual_L: NDArray[np.floating],
    *,
    apart: int,
    per_promoter: int,
    first: int = 0,
) -> Places:
    """The places where the map of a promoter rises most above what is usual there, at least `apart` bases apart.

    map_BL: not negative. first: number of the block's first promoter. Places where the map does not rise above the
    usual are left out. Ordered by promoter.
    """
    risen = uniform_filter1d(map_BL - usual_L, SMOOTHED_BASES, axis=1, mode="constant").astype(np.float32)
    rows = np.arange(len(risen))
    bases = np.arange(risen.shape[1])
    genes, centres, scores = [], [], []
    for _ in range(per_promoter):
        best = risen.argmax(axis=1)
        height = risen[rows, best]
        kept = height > 0
        genes.append(rows[kept] + first)
        centres.append(best[kept])
        scores.append(height[kept])
        risen[np.abs(bases[None, :] - best[:, None]) < apart] = 0
    gene = np.concatenate(genes).astype(np.int32)
    order = np.argsort(gene, kind="stable")
    return Places(
        gene=gene[order],
        centre=np.concatenate(centres)[order].astype(np.int32),
        score=np.concatenate(scores)[order].astype(np.float32),
    )


def best_places(parts: Sequence[Places], number: int) -> Places:
    """The `number` places of highest score, best first; ties by promoter and place."""
    gene = np.concatenate([part.gene for part in parts])
    centre = np.concatenate([part.centre for part in parts])
    score = np.concatenate([part.score for part in parts])
    order = np.lexsort((centre, gene, -score))[:number]
    return Places(gene=gene[order], centre=centre[order], score=score[order])


def cut_codes(codes_GL: NDArray[np.uint8], places: Places, width: int) -> NDArray[np.uint8]:
    """The bases of windows of `width` bases, (S, W); N beyond the promoter."""
    return _cut(codes_GL, places, width, UNKNOWN)


def cut_map(map_BL: NDArray[np.floating], places: Places, width: int, first: int = 0) -> NDArray[np.float32]:
    """A map in windows of `width` bases, (S, W); 0 beyond the promoter. first: number of its first promoter."""
    return _cut(map_BL, replace(places, gene=places.gene - first), width, 0).astype(np.float32)


def without_copies(codes_SW: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which windows to keep, (S,), so that no two share `SHARED_BASES` bases in a row; the first of copies stays.

    Promoters of duplicated genes would otherwise make a motif of whatever they share.
    """
    kmers, offsets = distinct_kmers(codes_SW, SHARED_BASES)
    telling = ~is_low_complexity(kmers, SHARED_BASES)
    window = np.repeat(np.arange(len(codes_SW)), np.diff(offsets))[telling]
    order = np.argsort(kmers[telling], kind="stable")
    kmer, window = kmers[telling][order], window[order]
    shared = [members for members in np.split(window, np.flatnonzero(np.diff(kmer)) + 1) if members.size > 1]
    keep = np.ones(len(codes_SW), dtype=np.bool_)
    for members in sorted(shared, key=lambda members: tuple(members.tolist())):
        kept = members[keep[members]]
        keep[kept[1:]] = False
    return keep


def control_places(places: Places, num_genes: int, copies: int, rng: np.random.Generator) -> Places:
    """`copies` windows for each, at the same place in other promoters, drawn at random."""
    step = 1 + (rng.random((copies, len(places))) * max(1, num_genes - 1)).astype(np.int64)
    gene = (places.gene[None, :] + step) % max(1, num_genes)
    return Places(
        gene=gene.ravel().astype(np.int32),
        centre=np.tile(places.centre, copies),
        score=np.zeros(gene.size, dtype=np.float32),
    )


def _cut(values_GL: NDArray[_Number], places: Places, width: int, beyond: float) -> NDArray[_Number]:
    place = places.centre[:, None] - width // 2 + np.arange(width)
    inside = (place >= 0) & (place < values_GL.shape[1])
    cut = values_GL[places.gene[:, None], np.where(inside, place, 0)]
    cut[~inside] = beyond
    return cut
