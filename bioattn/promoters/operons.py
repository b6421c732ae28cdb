"""Genes beside each other: transcription units, which no split parts, and the genes a window reaches into."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.genes import STRANDS, Gene
from bioattn.formats.tables import open_table
from bioattn.promoters.homology import group_labels
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.text import quoted


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


def read_units(genes: Sequence[Gene], operons: str) -> dict[str, str]:
    """The transcription unit of each gene that shares one, named by a gene of it.

    operons: the largest distance for `units_by_distance`, or a table with the columns `gene` and `unit`. Units of
    the table that share a gene are one.

    Raises: FormatError for a table without these columns, BioattnError when it has no gene of the annotation.
    """
    if operons.isdecimal():
        units = units_by_distance(genes, int(operons))
    else:
        reader = open_table(Path(operons))
        gene, unit = reader.column("gene", "--operons"), reader.column("unit", "--operons")
        members: dict[str, list[str]] = {}
        for _, cells in reader.rows():
            members.setdefault(cells[unit], []).append(cells[gene])
        units = list(members.values())
        known, named = [gene.gene_id for gene in genes], [name for unit in units for name in unit]
        if not set(known) & set(named):
            raise BioattnError(
                f"--operons: none of the genes of {operons} ({quoted(named, 3)}) is in the annotation "
                f"({quoted(known, 3)})"
            )
    names: dict[str, str] = {}
    for together in units:
        joined = {names[name] for name in together if name in names}
        earlier = [name for name, unit_name in names.items() if unit_name in joined]
        names |= dict.fromkeys([*together, *earlier], together[0])
    return names


def units_by_distance(genes: Sequence[Gene], distance: int) -> list[list[str]]:
    """Join neighbours on one strand of a chromosome with at most `distance` bases between them.

    Genes that overlap are joined too; genes on the other strand do not count. A gene with several places or
    without a strand is left out, and so are units of a single gene.
    """
    units: list[list[str]] = []
    last: tuple[str, str] | None = None
    reached = 0
    usable = [gene for gene in genes if not gene.problem and gene.place.strand in STRANDS]
    for gene in sorted(usable, key=lambda gene: (gene.place.chrom, gene.place.strand, gene.place.start)):
        strand = (gene.place.chrom, gene.place.strand)
        if strand != last or gene.place.start - reached > distance:
            units.append([])
            reached = 0
        units[-1].append(gene.gene_id)
        last, reached = strand, max(reached, gene.place.end)
    return [unit for unit in units if len(unit) > 1]


def unit_labels(promoters: Sequence[Promoter]) -> NDArray[np.int64]:
    """The number of each promoter's transcription unit; a promoter without one is alone."""
    first: dict[str, int] = {}
    row = np.array([first.setdefault(p.unit or f" {i}", i) for i, p in enumerate(promoters)], dtype=np.int64)
    return group_labels(len(row), [(row, np.arange(len(row)))])


def unit_notes(promoters: Sequence[Promoter]) -> dict[str, str]:
    """What the audit says of each gene that shares its transcription unit: which gene is the most upstream one."""
    members: dict[str, list[Promoter]] = {}
    for promoter in promoters:
        members.setdefault(promoter.unit, []).append(promoter)
    members.pop("", None)
    notes: dict[str, str] = {}
    for unit in members.values():
        first = min(unit, key=lambda p: -p.end if p.strand == "-" else p.start)
        if len(unit) > 1:
            notes |= {p.gene_id: f"in the transcription unit of {first.gene_id}" for p in unit}
            notes[first.gene_id] = f"first of a transcription unit of {len(unit)}"
    return notes
