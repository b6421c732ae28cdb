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
        self._spans: dict[str, list[Span]] = {}
        for chrom, span in spans:
            self._spans.setdefault(chrom, []).append(span)
        self._starts: dict[str, NDArray[np.int64]] = {}
        self._reach: dict[str, NDArray[np.int64]] = {}
        """The largest end so far, which never falls: a search finds the first span that can reach a window."""
        for chrom, here in self._spans.items():
            here.sort()
            self._starts[chrom] = np.array([span.start for span in here], dtype=np.int64)
            self._reach[chrom] = np.maximum.accumulate(np.array([span.end for span in here], dtype=np.int64))

    def overlapping(self, chrom: str, start: int, end: int, own: int) -> list[Span]:
        """Spans of all genes but number `own` that share a base with [start, end), by start position."""
        if chrom not in self._spans:
            return []
        first = int(np.searchsorted(self._reach[chrom], start, side="right"))
        last = int(np.searchsorted(self._starts[chrom], end, side="left"))
        return [
            span
            for span in self._spans[chrom][first:last]
            if span.end > start and span.gene != own and span.start < span.end
        ]
