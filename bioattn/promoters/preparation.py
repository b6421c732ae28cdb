"""From a genome and an annotation to promoter FASTA, BED and an audit: each gene kept, trimmed or dropped.

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

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import STRANDS, Annotation, Gene
from bioattn.formats.genome import Genome, open_genome
from bioattn.formats.nucleotides import UNKNOWN, reverse_complement
from bioattn.io.files import atomic_output, check_output, text_output
from bioattn.io.records import audit_text
from bioattn.promoters.choices import Anchor, PreparePromoters, WindowSettings
from bioattn.promoters.chromosomes import (
    AUTO,
    find_aliases,
    match_chromosomes,
    read_aliases,
    shown_aliases,
    write_aliases,
)
from bioattn.promoters.genes import read_units
from bioattn.promoters.promoter_fasta import Promoter, format_promoter
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, listed

LOGGER = logging.getLogger("bioattn")


class AuditRow(NamedTuple):
    """One gene, kept, trimmed or dropped; positions from 0; None stands for an empty field."""

    gene_id: str
    chrom: str
    strand: str
    anchor: int | None
    start: int | None = None
    """0-based first base of the window (without flanks); negative where it is padded or goes around the origin."""
    end: int | None = None
    length: int | None = None
    status: str = "dropped"
    reason: str = ""
    """Why it was trimmed or dropped (docs/formats/promoters.md); two reasons of a trim are joined by a comma."""
    other_genes: tuple[str, ...] = ()
    """Ids of the other genes the window reaches into, before any trimming at them."""
    masked: int | None = None
    """Bases of the window written as N because they lie in other genes."""
    fraction_n: float | None = None
    gc: float | None = None
    """G and C among the bases that are known; None when none is."""
    name: str = ""
    biotype: str = ""
    transcript: str = ""


def summarise(rows: Sequence[AuditRow]) -> str:
    """Count the genes kept, trimmed and dropped, with reasons, in one line."""
    statuses = Counter(row.status for row in rows)
    parts = [f"{statuses['kept']:,} kept"]
    for status in ("trimmed", "dropped"):
        if statuses[status]:
            reasons = Counter(row.reason for row in rows if row.status == status)
            named = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
            parts.append(f"{statuses[status]:,} {status} ({named})")
    return f"{counted(len(rows), 'gene')}: " + "; ".join(parts)


BLOCK = 2048
NO_UTR_FRACTION = 0.95
_IS_CIRCULAR = re.compile(r"\b(topology=circular|circular=(true|yes|y))\b", re.IGNORECASE)
_FASTA_SUFFIXES = (".fasta", ".fa", ".fna", ".fas")


@dataclass(frozen=True, slots=True)
class PromoterFiles:
    """The files one preparation writes; aliases only where names of chromosomes were to be found."""

    fasta: Path
    bed: Path
    audit: Path
    aliases: Path

    @classmethod
    def beside(cls, fasta: Path) -> "PromoterFiles":
        """X.bed, X.audit.tsv and X.aliases.tsv beside X.fa (or X.fasta, X.fna, X.fa.gz, …)."""
        stem = fasta.name.removesuffix(".gz")
        for suffix in _FASTA_SUFFIXES:
            stem = stem.removesuffix(suffix)
        return cls(fasta, *(fasta.with_name(f"{stem}.{end}") for end in ("bed", "audit.tsv", "aliases.tsv")))


def prepare_promoters(given: PreparePromoters, progress: Progress = SILENT) -> list[AuditRow]:
    """Write the promoters of an annotation as FASTA, with BED and audit table beside it.

    The three files appear together, when all are complete. Returns the audit rows, one for every gene.
    """
    genome, annotation, aliases = given.genome, given.annotation, given.chromosome_aliases
    table = None if aliases in (None, AUTO) else Path(str(aliases))
    inputs = [path for path in (genome, annotation, table) if path is not None]
    check_output(given.output, inputs)
    files = PromoterFiles.beside(given.output)
    check_output(files.bed, inputs)
    check_output(files.audit, inputs)
    read = read_annotation(annotation, given.id_attribute)
    check_settings(read, given.windows)
    opened = open_genome(genome, progress)
    found = find_aliases(read, opened) if aliases == AUTO else {}
    names = match_chromosomes(read, opened, genome, found.items() if table is None else read_aliases(table))
    units = {} if given.operons is None else read_units(read.genes, given.operons)
    cutter = PromoterCutter(read, opened, names, given.windows)
    _warn(cutter)
    with (
        atomic_output(files.fasta) as fasta,
        atomic_output(files.bed) as bed,
        atomic_output(files.audit) as audit,
    ):
        with text_output(fasta) as fasta_file, text_output(bed) as bed_file, text_output(audit) as audit_file:
            progress.begin("cutting promoters", len(read.genes))
            for promoter in cutter.promoters(progress):
                unit = units.get(promoter.gene_id, "")
                fasta_file.write(format_promoter(promoter._replace(unit=unit)))
                for start, end in cutter.spans_on_chromosome(promoter):
                    bed_file.write(
                        f"{promoter.chrom}\t{start}\t{end}\t{promoter.gene_id}\t0\t{promoter.strand}\n"
                    )
            progress.end()
            audit_file.write(audit_text(AuditRow._fields, cutter.rows, decimals=6))
        if not any(row.status != "dropped" for row in cutter.rows):
            raise BioattnError(f"{annotation}: no promoter is left ({summarise(cutter.rows)})")
    if aliases == AUTO:
        write_aliases(files.aliases, found)
        LOGGER.info(
            f"{counted(len(found), 'chromosome')} by another name in {genome}: {shown_aliases(found) or 'none'}"
        )
    LOGGER.info(summarise(cutter.rows))
    return cutter.rows


def check_settings(annotation: Annotation, settings: WindowSettings) -> None:
    """Refuse settings that this annotation cannot serve.

    Raises: BioattnError; FormatError when a gene id has white space, which no FASTA name can.
    """
    for gene in annotation.genes:
        if len(gene.gene_id.split()) != 1:
            raise FormatError(
                f"{annotation.path}:{gene.line}: the gene id {gene.gene_id!r} contains white space, which a FASTA "
                "name cannot; choose another --id-attribute"
            )
    if annotation.format == "BED":
        wanted = {
            "--anchor cds": settings.anchor == "cds",
            "--feature mRNA": settings.feature == "mRNA",
            "--biotype": bool(settings.biotypes),
        }
        option = next((option for option, given in wanted.items() if given), None)
        if option is not None and not any(gene.transcripts for gene in annotation.genes):
            raise BioattnError(
                f"{option}: {annotation.path} is BED, which says nothing about it (BED12 would)"
            )
    present = Counter(gene.biotype for gene in annotation.genes if gene.biotype)
    for biotype in settings.biotypes:
        if biotype not in present:
            known = listed([name for name, _ in present.most_common()], 12)
            raise BioattnError(
                f"--biotype {biotype!r}: no gene of {annotation.path} has it; there are {known or 'no biotypes'}"
            )


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


class _Plan(NamedTuple):
    """Where to cut one promoter; `row` is its audit row as far as known without the sequence."""

    number: int
    row: AuditRow
    full_start: int
    """First base of the untrimmed window."""
    cut: int
    others: tuple[Span, ...]
    """Spans of other genes on the window and its flanks."""


class PromoterCutter:
    """Cuts the promoters of all genes; `rows` holds the audit when `promoters` has been used up."""

    def __init__(
        self, annotation: Annotation, genome: Genome, names: dict[str, str], settings: WindowSettings
    ) -> None:
        """`names`: genome name of each annotation chromosome the genome has."""
        self.annotation = annotation
        self.genome = genome
        self.names = names
        self.settings = settings
        self.rows: list[AuditRow] = []
        for name in settings.circular:
            if name not in genome.lengths and name not in names:
                raise not_there("--circular", name, "the genome", "chromosome", genome.names)
        self.circular = {names[chrom] for chrom in annotation.circular if chrom in names}
        self.circular |= {each.name for each in genome.chromosomes if _IS_CIRCULAR.search(each.description)}
        self.circular |= {names.get(name, name) for name in settings.circular}
        longest = settings.length + 2 * settings.flank
        self.around = {chrom for chrom in self.circular if genome.lengths[chrom] >= longest}
        """Chromosomes around whose origin windows go."""
        if self.around:
            LOGGER.info(f"windows go around the origin of {listed(sorted(self.around))}")
        spans = []
        for number, gene in enumerate(annotation.genes):
            for place in gene.places:
                chrom = names.get(place.chrom)
                if chrom is None:
                    continue
                turn = genome.lengths[chrom]
                for shift in (-turn, 0, turn) if chrom in self.circular else (0,):
                    spans.append((chrom, Span(place.start + shift, place.end + shift, number)))
        self.spans = GeneSpans(spans)
        """Where all genes of the annotation lie, whatever happens to their own promoters."""

    def spans_on_chromosome(self, promoter: Promoter) -> Iterator[tuple[int, int]]:
        """Yield the window of a promoter, cut down to the chromosome: two parts around an origin."""
        length = self.genome.lengths[promoter.chrom]
        for shift in (length, 0, -length) if promoter.chrom in self.around else (0,):
            start, end = max(promoter.start + shift, 0), min(promoter.end + shift, length)
            if start < end or not shift:
                yield start, end

    def promoters(self, progress: Progress) -> Iterator[Promoter]:
        """Yield the promoters that are kept or trimmed, in annotation order."""
        genes = self.annotation.genes
        for first in range(0, len(genes), BLOCK):
            plans: list[_Plan] = []
            block = genes[first : first + BLOCK]
            for number, gene in enumerate(block, start=first):
                planned = self._plan(number, gene)
                if isinstance(planned, _Plan):
                    plans.append(planned)
                self.rows.append(planned.row if isinstance(planned, _Plan) else planned)
            if plans:
                yield from self._cut(plans)
            progress.advance(len(block))

    def _plan(self, number: int, gene: Gene) -> _Plan | AuditRow:
        settings = self.settings
        place = gene.place
        chrom = self.names.get(place.chrom, "")
        anchor = find_anchor(gene, settings)
        row = AuditRow(
            gene.gene_id,
            chrom or place.chrom,
            place.strand,
            anchor.position if not anchor.reason else None,
            reason=anchor.reason,
            name=gene.name,
            biotype=gene.biotype,
            transcript=anchor.transcript_id,
        )
        if settings.biotypes and gene.biotype not in settings.biotypes:
            return row._replace(reason="biotype")
        if anchor.reason:
            return row
        if not chrom:
            return row._replace(reason="chromosome_not_in_genome")
        length = self.genome.lengths[chrom]
        position = anchor.position % length if chrom in self.circular else anchor.position
        row = row._replace(anchor=position)
        if place.start >= length or (place.end > length and chrom not in self.circular) or position >= length:
            return row._replace(reason="outside_chromosome")
        start, end = window_around(position, place.strand, settings.upstream, settings.downstream)
        return self._fit(number, row._replace(start=start, end=end, length=end - start), position, length)

    def _fit(self, number: int, row: AuditRow, anchor: int, chromosome_length: int) -> _Plan | AuditRow:
        """Apply the rules for chromosome ends and other genes to a window."""
        settings = self.settings
        full_start, full_end = start, end = row.start or 0, row.end or 0
        reasons = []
        leaves = (start < 0 or end > chromosome_length) and row.chrom not in self.around
        if leaves and settings.boundary != "pad":
            # The downstream side is never cut: the anchor must keep its distance from the end of the sequence.
            if settings.boundary == "drop" or (end > chromosome_length if row.strand == "+" else start < 0):
                return row._replace(reason="boundary")
            start, end = max(start, 0), min(end, chromosome_length)
            reasons.append("boundary")
        flank = settings.flank
        near = self.spans.overlapping(row.chrom, start - flank, end + flank, number)
        others = [span for span in near if span.start < end and span.end > start]
        other_ids = dict.fromkeys(self.annotation.genes[span.gene].gene_id for span in others)
        row = row._replace(start=start, end=end, length=end - start, other_genes=tuple(other_ids))
        if others and settings.overlap == "drop":
            return row._replace(reason="overlap")
        if others and settings.overlap == "trim":
            spans = [(span.start, span.end) for span in others]
            trimmed = trim_upstream(start, end, row.strand, anchor, spans)
            if trimmed != (start, end):
                reasons.append("overlap")
                start, end = trimmed
        row = row._replace(start=start, end=end, length=end - start, reason=",".join(reasons))
        upstream_left = anchor - start if row.strand == "+" else end - 1 - anchor
        if settings.upstream and not upstream_left:
            return row._replace(reason="no_upstream_left")
        cut = start - full_start if row.strand == "+" else full_end - end
        row = row._replace(status="trimmed" if cut else "kept")
        return _Plan(number, row, full_start, cut, tuple(near))

    def _cut(self, plans: Sequence[_Plan]) -> Iterator[Promoter]:
        """Read the windows of a block of genes at once; put the sequence figures into their audit rows."""
        flank, settings = self.settings.flank, self.settings
        starts = np.array([plan.full_start - flank for plan in plans], dtype=np.int64)
        numbers = self.genome.chromosome_numbers([plan.row.chrom for plan in plans])
        around = np.array([plan.row.chrom in self.around for plan in plans])
        windows = self.genome.windows(numbers, starts, settings.length + 2 * flank, around)
        for plan, codes in zip(plans, windows, strict=True):
            row, masked = plan.row, 0
            if settings.overlap in ("mask", "trim") and plan.others:
                # `mask` hides other genes in the window and its flanks, `trim` in the flanks only: what was cut
                # must not come back as context.
                hidden, origin = np.zeros(codes.size, dtype=bool), plan.full_start - flank
                for span in plan.others:
                    hidden[max(span.start - origin, 0) : max(span.end - origin, 0)] = True
                inside = slice((row.start or 0) - origin, (row.end or 0) - origin)
                if settings.overlap == "trim":
                    hidden[inside] = False
                codes[hidden] = UNKNOWN
                masked = int(hidden[inside].sum())
            sequence = (codes if row.strand == "+" else reverse_complement(codes))[plan.cut :]
            window = sequence[flank : sequence.size - flank]
            counts = np.bincount(window, minlength=UNKNOWN + 1)
            known = int(counts[:UNKNOWN].sum())
            row = row._replace(
                masked=masked,
                fraction_n=int(counts[UNKNOWN]) / window.size,
                gc=int(counts[1] + counts[2]) / known if known else None,
            )
            if int(counts[UNKNOWN]) > settings.max_n * window.size:
                row = row._replace(status="dropped", reason="max_n")
            self.rows[plan.number] = row
            if row.status != "dropped":
                start, end = row.start or 0, row.end or 0
                place = (row.chrom, start, end, row.strand)
                name = row.name if row.name != row.gene_id else ""
                yield Promoter(row.gene_id, *place, flank, sequence, settings.downstream, name=name)


def _warn(cutter: PromoterCutter) -> None:
    """Warn of what affects the results."""
    annotation, genome, names, settings = cutter.annotation, cutter.genome, cutter.names, cutter.settings
    missing = [chrom for chrom in annotation.chromosomes if chrom not in names]
    if missing:
        lost = sum(gene.place.chrom not in names for gene in annotation.genes)
        found = {ours: theirs for ours, theirs in find_aliases(annotation, genome).items() if ours in missing}
        advice = f"auto takes {shown_aliases(found)}" if found else "can name them"
        LOGGER.warning(
            f"the genome has no chromosome {listed(missing)}; the {lost:,} genes there are dropped "
            f"(--chromosome-aliases {advice})"
        )
    for gene in annotation.genes:
        chrom = names.get(gene.place.chrom)
        if chrom and chrom not in cutter.circular and genome.lengths[chrom] < gene.place.end:
            LOGGER.warning(
                f"{gene.gene_id} (line {gene.line}) reaches beyond the end of {chrom} ({genome.lengths[chrom]:,} "
                f"bases); genes that do are dropped (--circular {chrom} if it is circular)"
            )
            break
    if annotation.remnants:
        LOGGER.warning(
            f"{annotation.path}: {len(annotation.remnants):,} CDS rows are ignored because the gene or transcript "
            f"they name is not in the file (first: line {annotation.remnants[0]})"
        )
    scattered = [gene for gene in annotation.genes if gene.problem == "several_places"]
    if scattered:
        first = scattered[0]
        LOGGER.warning(
            f"{counted(len(scattered), 'gene id')} dropped that stand for several places, such as {first.gene_id} "
            f"(line {first.line}); if they are different genes, choose another --id-attribute"
        )
    if settings.anchor == "tss":
        coding = [(gene, t) for gene in annotation.genes if (t := gene.representative()) and t.kind == "mRNA"]
        same = sum(
            find_anchor(gene, settings).position
            == find_anchor(gene, replace(settings, anchor=Anchor.CDS)).position
            for gene, _ in coding
        )
        if coding and same >= NO_UTR_FRACTION * len(coding):
            bases = f" and the {settings.downstream} bases from there on are coding (--downstream 0: without them)"
            LOGGER.warning(
                f"{same:,} of {len(coding):,} mRNAs start with their coding sequence: the annotation has no 5' "
                f"UTRs, so position 0 is the start codon{bases if settings.downstream else ''}"
            )
