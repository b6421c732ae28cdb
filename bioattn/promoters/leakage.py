"""Leakage between training, validation and test, measured the same way for every split."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.promoters.homology import MIN_SHARE, Links
from bioattn.promoters.kmers import DEFAULT_K
from bioattn.text import percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class Leakage:
    """What the promoters of one side have in common with those of another."""

    side: str
    """`test` or `validation`."""
    against: str
    """The side looked into: `train`, or `validation` for the test side."""
    promoters: int
    """Promoters of `side`."""
    shared_kmers: float
    """Part of them that has at least `min_share` of its k-mers in common with one promoter of `against`."""
    overlapping: float | None
    """Part whose window (with flanks) overlaps one of `against`; None when the promoters have no location."""
    paralogues: float | None
    """Part whose protein has a paralogue in `against`; None when no proteins were given."""
    k: int = DEFAULT_K
    min_share: float = MIN_SHARE

    def sentence(self) -> str:
        """Describe the leakage in one line."""
        parts = [
            f"{percentage(self.shared_kmers, 1)} share at least {percentage(self.min_share)} of their "
            f"{self.k}-mers with one"
        ]
        if self.overlapping is not None:
            parts.append(f"{percentage(self.overlapping, 1)} overlap one")
        if self.paralogues is not None:
            parts.append(f"{percentage(self.paralogues, 1)} have a paralogue there")
        return f"{self.side} promoters against {self.against}: {', '.join(parts)} (of {self.promoters:,})"


def measure_leakage(
    gene_split: NDArray[np.uint8],
    links: Links,
    chrom: Sequence[str],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    paralogues: Links | None = None,
) -> list[Leakage]:
    """Leakage of validation and test against training, and of test against validation; empty sides are left out.

    links: of `homology.promoter_links`. start, end: windows WITH flanks, 0-based half-open.
    """
    located = any(chrom)
    figures = []
    for side, against in ((VALIDATION, TRAIN), (TEST, TRAIN), (TEST, VALIDATION)):
        here, there = gene_split == side, gene_split == against
        if not here.any() or not there.any():
            continue
        figures.append(
            Leakage(
                side=SPLIT_NAMES[side],
                against=SPLIT_NAMES[against],
                promoters=int(here.sum()),
                shared_kmers=_linked(links, here, there, MIN_SHARE),
                overlapping=float(overlaps_any(chrom, start, end, here, there)[here].mean())
                if located
                else None,
                paralogues=None if paralogues is None else _linked(paralogues, here, there, 0.0),
            )
        )
    return figures


def overlaps_any(
    chrom: Sequence[str],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    here: NDArray[np.bool_],
    there: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Whether each interval of `here` overlaps one of `there` by at least a base; False for all others.

    Intervals are 0-based and half-open; an empty chromosome name means no place.
    """
    result = np.zeros(len(start), dtype=np.bool_)
    names, number = np.unique(np.asarray(chrom, dtype=object).astype(str), return_inverse=True)
    for index, name in enumerate(names):
        mine, other = np.flatnonzero(here & (number == index)), np.flatnonzero(there & (number == index))
        if not name or not mine.size or not other.size:
            continue
        # Intervals overlap unless one ends before the other begins: those that begin in time, less those that
        # end too early. (Every interval has start < end, so the second set lies within the first.)
        begun = np.searchsorted(np.sort(start[other]), end[mine], side="left")
        over = np.searchsorted(np.sort(end[other]), start[mine], side="right")
        result[mine] = begun > over
    return result


def nearest_correlation(
    targets: NDArray[np.float32],
    gene_rows: NDArray[np.int64],
    treatments: NDArray[np.int64],
    against: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Pearson r of each of `treatments` with the one of `against` that resembles it most, over `gene_rows`.

    Missing values count as the treatment's mean. NaN where a treatment is constant or `against` is empty.
    """
    if not len(against) or not len(treatments):
        return np.full(len(treatments), np.nan)
    mine, theirs = (
        _standardised(targets[np.ix_(gene_rows, treatments)]),
        _standardised(targets[np.ix_(gene_rows, against)]),
    )
    correlation = mine.T @ theirs
    best = np.where(np.isnan(correlation), -np.inf, correlation).max(axis=1)
    return np.where(np.isneginf(best), np.nan, best)


def _linked(links: Links, here: NDArray[np.bool_], there: NDArray[np.bool_], min_share: float) -> float:
    hit = here[links.first] & there[links.second] & (links.share >= min_share)
    return len(np.unique(links.first[hit])) / int(here.sum())


def _standardised(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Columns with mean 0 and length 1; NaN columns where there is no spread."""
    wide = values.astype(np.float64)
    present = ~np.isnan(wide)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(present, wide, 0).sum(axis=0) / present.sum(axis=0)
        centred = np.where(present, wide - mean, 0.0)
        return np.asarray(centred / np.sqrt((centred**2).sum(axis=0)))
