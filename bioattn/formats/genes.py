"""Genes as every annotation reader gives them, whatever the file format.

Positions are 0-based and half-open along the chromosome, on both strands. A gene's id is what its file's
`--id-attribute` says; rows that share an id are one gene, and when they lie at different places the gene has no
single start (`problem`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

STRANDS = ("+", "-")
ID_PREFIX = re.compile("^[Gg]ene[-:]")
"""What NCBI and Ensembl write before the ids of GFF3."""
MAX_POSITION_DIGITS = 15
"""Longer numbers lie beyond any chromosome, and beyond int64 soon after."""


class Place(NamedTuple):
    """Where (a part of) a gene lies."""

    chrom: str
    start: int
    end: int
    strand: str
    """`+`, `-`, or `.` when the file gives none."""


class Transcript(NamedTuple):
    """One transcript, or the coding sequence of a gene that has no transcript rows (bacteria)."""

    transcript_id: str
    kind: str
    """The type in the file: mRNA, tRNA, transcript, …; CDS when there is no transcript row."""
    start: int
    end: int
    cds_start: int
    """First base of the coding sequence along the chromosome; -1 when there is none."""
    cds_end: int
    cds_length: int
    """Coding bases over all parts."""


@dataclass(frozen=True, slots=True)
class Gene:
    """One gene of an annotation."""

    gene_id: str
    name: str
    """The common name, empty when the file gives none."""
    biotype: str
    """As the file says; otherwise protein_coding when there is a CDS, the type of the first transcript, or ""."""
    places: tuple[Place, ...]
    """The gene's rows that differ; one for almost every gene."""
    transcripts: tuple[Transcript, ...]
    line: int
    """1-based line of the first row."""
    problem: str = ""
    """Why the gene has no usable start: several_places, trans_spliced or no_id; empty for almost every gene."""

    @property
    def place(self) -> Place:
        """The (first) place."""
        return self.places[0]

    def representative(self, messenger_only: bool = False) -> Transcript | None:
        """The transcript that stands for the gene: longest coding sequence, then longest span, then most upstream
        start, then first in the file. With `messenger_only` only mRNAs and transcripts with a CDS are looked at.
        """
        choice = [t for t in self.transcripts if not messenger_only or t.kind == "mRNA" or t.cds_length]
        if not choice:
            return None
        forward = self.place.strand != "-"
        return max(
            choice, key=lambda t: (t.cds_length, t.end - t.start, -t.start if forward else t.end)
        )  # max keeps the first of equals


@dataclass(frozen=True, slots=True)
class Annotation:
    """All genes of one file, in file order."""

    path: Path
    format: str
    """GFF3, GTF or BED."""
    genes: list[Gene]
    chromosome_lengths: dict[str, int] = field(default_factory=dict)
    """Lengths the file states (`##sequence-region`, region rows)."""
    chromosome_labels: dict[str, str] = field(default_factory=dict)
    """Other names of chromosomes the file states, such as I for BK006935.2."""
    circular: frozenset[str] = frozenset()
    """Chromosomes the file marks as circular."""
    remnants: list[int] = field(default_factory=list)
    """1-based lines of CDS rows that were ignored because the file lacks their parent."""

    @property
    def chromosomes(self) -> list[str]:
        """Names of the chromosomes with genes, in order of appearance."""
        return list(dict.fromkeys(place.chrom for gene in self.genes for place in gene.places))


@dataclass(slots=True)
class GeneDraft:
    """A gene while its rows are being collected."""

    gene_id: str
    line: int
    name: str = ""
    biotype: str = ""
    places: dict[Place, None] = field(default_factory=dict)
    """Places of gene rows, in order."""
    transcripts: dict[str, "TranscriptDraft"] = field(default_factory=dict)
    problem: str = ""

    def transcript(self, transcript_id: str, kind: str) -> "TranscriptDraft":
        """The transcript of this id; a new one where there is none yet."""
        return self.transcripts.setdefault(transcript_id, TranscriptDraft(transcript_id, kind))

    def finish(self) -> Gene:
        """The gene; without gene rows its extents are those of its transcripts that overlap on a strand.

        A transcript without a strand (StringTie's of one exon) does not count beside others that have one.
        """
        stranded = [d for d in self.transcripts.values() if any(p.strand in STRANDS for p in d.spans + d.cds)]
        drafts = stranded or list(self.transcripts.values())
        places = tuple(self.places) or _extents(each.spans + each.cds for each in drafts)
        problem = self.problem
        transcripts: list[Transcript] = []
        if not problem and len(places) > 1:
            problem = "several_places"
        if not problem:
            here = (places[0].chrom, places[0].strand)
            for draft in drafts:
                elsewhere = {(p.chrom, p.strand) for p in draft.spans + draft.cds} - {here, (here[0], ".")}
                if elsewhere and places[0].strand in STRANDS:
                    problem = "trans_spliced"
                transcripts.append(draft.finish())
        biotype = self.biotype
        if not biotype and drafts:
            biotype = "protein_coding" if any(draft.cds for draft in drafts) else drafts[0].kind
        return Gene(self.gene_id, self.name, biotype, places, tuple(transcripts), self.line, problem)


@dataclass(slots=True)
class TranscriptDraft:
    """A transcript while its rows are being collected."""

    transcript_id: str
    kind: str
    spans: list[Place] = field(default_factory=list)
    """Transcript rows, or exons where the file has none."""
    cds: list[Place] = field(default_factory=list)

    def finish(self) -> Transcript:
        parts = self.spans or self.cds
        start, end = min(part.start for part in parts), max(part.end for part in parts)
        if not self.cds:
            return Transcript(self.transcript_id, self.kind, start, end, -1, -1, 0)
        coding = {(part.start, part.end) for part in self.cds}
        first, last = min(begin for begin, _ in coding), max(end for _, end in coding)
        length = sum(end - begin for begin, end in coding)
        return Transcript(self.transcript_id, self.kind, start, end, first, last, length)


def _extents(transcripts: Iterable[Sequence[Place]]) -> tuple[Place, ...]:
    """The extents of transcripts, given as their parts, on each chromosome and strand, in order of appearance.

    Those that do not overlap are several: copies of a gene under one name (UCSC's refGene).
    """
    extents: list[Place] = []
    for parts in transcripts:
        of_one: dict[tuple[str, str], tuple[int, int]] = {}
        stranded = {place.chrom for place in parts if place.strand in STRANDS}
        for chrom, start, end, strand in parts:
            if strand in STRANDS or chrom not in stranded:
                low, high = of_one.get((chrom, strand), (start, end))
                of_one[chrom, strand] = min(low, start), max(high, end)
        extents += [Place(chrom, low, high, strand) for (chrom, strand), (low, high) in of_one.items()]
    stranded = {place.chrom for place in extents if place.strand in STRANDS}
    joined: list[Place] = []
    for place in sorted(extents, key=lambda place: place.start):
        if place.strand not in STRANDS and place.chrom in stranded:
            continue
        last = next(
            (i for i, one in enumerate(joined) if one[::3] == place[::3] and place.start <= one.end), None
        )
        if last is None:
            joined.append(place)
        else:
            joined[last] = joined[last]._replace(end=max(joined[last].end, place.end))
    order = list(dict.fromkeys(place[::3] for place in extents))
    return tuple(sorted(joined, key=lambda place: (order.index(place[::3]), place.start)))
