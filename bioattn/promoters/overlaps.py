"""Which genes a window reaches into: an index of the spans of all genes of an annotation."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Span(NamedTuple):
    """(A part of) a gene's extent on one chromosome, 0-based half-open."""

    start: int
    end: int
    gene: int
    """Number of the gene in the annotation."""


class GeneSpans:
    """Answers overlap queries exactly, on both strands at once."""

    def __init__(self, spans: Iterable[tuple[str, Span]]) -> None:
        by_chromosome: dict[str, list[Span]] = {}
        for chrom, span in spans:
            by_chromosome.setdefault(chrom, []).append(span)
        self._chromosomes: dict[str, _ChromosomeSpans] = {
            chrom: _ChromosomeSpans(found) for chrom, found in by_chromosome.items()
        }

    def overlapping(self, chrom: str, start: int, end: int, own: int) -> list[Span]:
        """Spans of all genes but number `own` that share a base with [start, end), by start position."""
        spans = self._chromosomes.get(chrom)
        return spans.overlapping(start, end, own) if spans is not None else []


class _ChromosomeSpans:
    def __init__(self, spans: list[Span]) -> None:
        self.spans = sorted(spans)
        self.starts: NDArray[np.int64] = np.array([span.start for span in self.spans], dtype=np.int64)
        # The largest end so far never falls, so a search finds the first span that can reach a window.
        self.reach: NDArray[np.int64] = np.maximum.accumulate(
            np.array([span.end for span in self.spans], dtype=np.int64)
        )

    def overlapping(self, start: int, end: int, own: int) -> list[Span]:
        first = int(np.searchsorted(self.reach, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left"))
        return [
            span
            for span in self.spans[first:last]
            if span.end > start and span.gene != own and span.start < span.end
        ]
