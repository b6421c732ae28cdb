"""Where the window of a promoter lies, and the genes in it.

Window positions are 0-based and half-open, from the window's first base in the direction of the gene.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import STRANDS
from bioattn.promoters.preparation import GeneSpans, Span
from bioattn.store.reader import Attention


class Window(NamedTuple):
    """Where a promoter lies, 0-based half-open along the chromosome; strand `.` = not known."""

    chrom: str
    start: int
    end: int
    strand: str

    def positions(self, first: int, last: int, length: int) -> tuple[int, int]:
        """Positions in the model's window of `length` bases of chromosome positions [first, last), not clipped."""
        if self.strand == "-":
            return self.start + length - last, self.start + length - first
        return first - self.end + length, last - self.end + length


def window_of(attention: Attention, gene: str) -> Window:
    """Where the window of a gene of an attention file lies."""
    place: dict[Any, Any] = attention.samples.loc[gene].to_dict()
    return Window(place["chrom"], place["start"], place["end"], place["strand"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowGene:
    """A gene that reaches into the window."""

    name: str
    start: int
    end: int
    """End of the gene; start and end may lie outside the window."""
    coding: tuple[int, int] | None
    """Interval from the first to the last coding base of the representative transcript."""
    forward: bool
    own: bool


class AnnotatedGenes:
    """The genes of an annotation by where they lie."""

    def __init__(self, path: Path, id_attribute: str | None = None) -> None:
        """Read an annotation (GFF3, GTF, BED). Raises: FormatError when it cannot be read."""
        self.annotation = read_annotation(path, id_attribute)
        self.by_id = {gene.gene_id: number for number, gene in enumerate(self.annotation.genes)}
        self._spans = GeneSpans(
            (place.chrom, Span(place.start, place.end, number))
            for number, gene in enumerate(self.annotation.genes)
            for place in gene.places
        )

    def name(self, gene: str) -> str:
        """The common name, empty when there is none."""
        number = self.by_id.get(gene)
        name = "" if number is None else self.annotation.genes[number].name
        return "" if name == gene else name

    def in_window(self, gene_id: str, window: Window, length: int) -> list[WindowGene]:
        """The genes in a window of `length` bases, by start; none where the strand is not known.

        The gene itself is among them, also where its window ends at its first base.
        """
        if window.strand not in STRANDS:
            return []
        spans = self._spans.overlapping(window.chrom, window.start, window.end, -1)
        own = self.by_id.get(gene_id, -1)
        if own >= 0:
            places = self.annotation.genes[own].places
            spans += [Span(p.start, p.end, own) for p in places if p.chrom == window.chrom]
        found = []
        for span in dict.fromkeys(spans):
            gene = self.annotation.genes[span.gene]
            strand = next(p.strand for p in gene.places if (p.start, p.end) == (span.start, span.end))
            transcript = gene.representative()
            coding = None
            if transcript is not None and transcript.cds_length:
                coding = window.positions(transcript.cds_start, transcript.cds_end, length)
            start, end = window.positions(span.start, span.end, length)
            found.append(
                WindowGene(
                    name=gene.name or gene.gene_id,
                    start=start,
                    end=end,
                    coding=coding,
                    forward=(strand == "-") == (window.strand == "-"),
                    own=span.gene == own,
                )
            )
        return sorted(found, key=lambda other: (other.start, other.end, other.name))
