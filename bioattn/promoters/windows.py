"""The promoter window of a gene: its anchor base, the bases around it, and the genes it reaches into.

A window is [-upstream, +downstream) around the anchor in the direction of the gene; the anchor is the first base
of the downstream part. Along the chromosome (0-based, half-open) that is

    + strand   [anchor - upstream, anchor + downstream)
    - strand   [anchor - downstream + 1, anchor + upstream + 1)

The one anchor per gene:

    anchor tss, feature gene    5' end of the gene
    anchor tss, feature mRNA    5' end of the gene's representative mRNA
    anchor cds                  first base of the coding sequence of the representative (m)RNA

The representative is the transcript with the longest coding sequence, then the longest span, then the most
upstream start, then the first in the file: one definite transcript, so that TSS and CDS of a gene belong together.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.genes import STRANDS, Gene
from bioattn.promoters.choices import WindowSettings


class GeneAnchor(NamedTuple):
    """The anchor of one gene (0-based), or -1 and the reason, as the audit says it."""

    position: int
    transcript_id: str
    """The transcript the anchor comes from, empty for the 5' end of the gene."""
    reason: str


def find_anchor(gene: Gene, settings: WindowSettings) -> GeneAnchor:
    """Find the anchor base of a gene by the rule at the top of this module."""
    place, by_mrna = gene.place, settings.feature == "mRNA"
    transcript = gene.representative(messenger_only=by_mrna)
    reason = gene.problem
    if not reason and place.start == place.end:
        reason = "zero_length"
    elif not reason and place.strand not in STRANDS:
        reason = "no_strand"
    elif not reason and by_mrna and transcript is None:
        reason = "no_mrna"
    elif not reason and settings.anchor == "cds" and not (transcript and transcript.cds_length):
        reason = "no_cds"
    if reason:
        return GeneAnchor(-1, "", reason)
    start, end, name = place.start, place.end, ""
    if transcript is not None and (settings.anchor == "cds" or by_mrna):
        start, end, name = transcript.start, transcript.end, transcript.transcript_id
        if settings.anchor == "cds":
            start, end = transcript.cds_start, transcript.cds_end
    return GeneAnchor(start if place.strand == "+" else end - 1, name, "")


def window_around(anchor: int, strand: str, upstream: int, downstream: int) -> tuple[int, int]:
    """Compute the window [start, end) along the chromosome; it may reach beyond the chromosome.

    >>> window_around(100, "+", 30, 10)
    (70, 110)
    >>> window_around(100, "-", 30, 10)
    (91, 131)
    """
    if strand == "+":
        return anchor - upstream, anchor + downstream
    return anchor - downstream + 1, anchor + upstream + 1


def trim_upstream(
    start: int, end: int, strand: str, anchor: int, others: list[tuple[int, int]]
) -> tuple[int, int]:
    """Trim the upstream side of a window at the nearest span of another gene (0-based, half-open).

    Spans that only touch the downstream part cut nothing. When one covers the base before the anchor, nothing is
    left upstream and the window starts at the anchor.

    >>> trim_upstream(70, 110, "+", 100, [(60, 80), (75, 90), (105, 200)])
    (90, 110)
    >>> trim_upstream(91, 131, "-", 100, [(120, 125), (129, 300)])
    (91, 120)
    """
    if strand == "+":
        reach = [min(other_end, anchor) for other_start, other_end in others if other_start < anchor]
        return max([start, *reach]), end
    reach = [max(other_start, anchor + 1) for other_start, other_end in others if other_end > anchor + 1]
    return start, min([end, *reach])


class Span(NamedTuple):
    """(A part of) a gene's extent on one chromosome, 0-based half-open."""

    start: int
    end: int
    gene: int
    """Number of the gene in the annotation."""


class GeneSpans:
    """Answers overlap queries exactly, on both strands at once."""

    def __init__(self, spans: Iterable[tuple[str, Span]]) -> None:
        by_chrom: dict[str, list[Span]] = {}
        for chrom, span in spans:
            by_chrom.setdefault(chrom, []).append(span)
        self._spans: dict[str, tuple[list[Span], NDArray[np.int64], NDArray[np.int64]]] = {}
        for chrom, here in by_chrom.items():
            here.sort()
            starts, ends, _ = np.array(here, dtype=np.int64).T
            # The largest end so far, which never falls: a search finds the first span that can reach a window.
            self._spans[chrom] = here, starts, np.maximum.accumulate(ends)

    def overlapping(self, chrom: str, start: int, end: int, own: int) -> list[Span]:
        """Spans of all genes but number `own` that share a base with [start, end), by start position."""
        if chrom not in self._spans:
            return []
        spans, starts, reach = self._spans[chrom]
        some = spans[int(np.searchsorted(reach, start, side="right")) : int(np.searchsorted(starts, end))]
        return [span for span in some if span.end > start and span.gene != own and span.start < span.end]
