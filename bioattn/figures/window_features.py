"""Features of a promoter's window: genes of an annotation, and motif sites.

Window positions are 0-based and half-open, from the window's first base in the direction of the gene.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import STRANDS, Annotation
from bioattn.formats.meme import read_meme
from bioattn.formats.motif import Motif
from bioattn.formats.nucleotides import AMBIGUITY_LETTERS, UNKNOWN
from bioattn.formats.tables import open_table
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.promoters.choices import Anchor
from bioattn.promoters.promoter_fasta import Promoter, read_promoters
from bioattn.promoters.windows import WindowSettings, find_anchor
from bioattn.store.reader import AttentionFile
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")

_SITE_COLUMNS = ("gene_id", "motif", "start", "end", "strand")


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
    """Whether the gene has the direction of the window."""
    own: bool
    """Whether the window is the promoter of this gene."""


class MotifSite(NamedTuple):
    """A site of a motif in the window."""

    motif: str
    start: int
    end: int
    strand: str
    """Strand relative to the window."""
    treatment: str
    """The treatment in which the site acts; "" where none is named."""
    rank: float
    """Sites of small rank are drawn first: the p-value, or 0 where a table lists the sites."""


class WindowSequence(NamedTuple):
    """The bases of one window, and the base composition of all windows."""

    codes: NDArray[np.uint8]
    """(window_length,) 0-3 for ACGT, 4 for N and padding."""
    composition: NDArray[np.float64]
    """(4,) frequencies of the bases on both strands of all promoters of the file."""


def window_genes(
    attention: AttentionFile,
    gene: str,
    annotation: Path,
    *,
    anchor: Anchor = Anchor.TSS,
    id_attribute: str | None = None,
) -> tuple[list[WindowGene], int | None]:
    """Genes of an annotation (GFF3, GTF, BED) in the window of `gene`, and the window position of its anchor.

    The position is None, with a warning, when the annotation does not know the gene.

    Raises: BioattnError when the file does not say where the gene lies, or the annotation names its chromosome
    otherwise; FormatError when it cannot be read.
    """
    place: dict[Any, Any] = attention.samples.loc[gene].to_dict()
    strand = str(place["strand"])
    if strand not in STRANDS:
        raise BioattnError(
            f"{attention.path}: does not say where gene {gene!r} lies, as its sequence file did not, so no "
            "annotation can be drawn; leave --annotation out"
        )
    known = read_annotation(annotation, id_attribute)
    chrom = str(place["chrom"])
    if chrom not in known.chromosomes:
        raise BioattnError(
            f"{annotation}: has no gene on chromosome {chrom!r} of {gene!r}; its chromosomes are "
            f"{quoted(known.chromosomes)}"
        )
    window = _Window(int(place["start"]), int(place["end"]), strand == "+", attention.window_length)
    return _genes(known, chrom, window, gene), _anchor(known, window, gene, anchor)


class _Window(NamedTuple):
    start: int
    end: int
    forward: bool
    length: int

    def positions(self, first: int, last: int) -> tuple[int, int]:
        """Window positions of chromosome positions [first, last), not clipped."""
        if self.forward:
            shift = self.end - self.length
            return first - shift, last - shift
        return self.start + self.length - last, self.start + self.length - first


def _genes(annotation: Annotation, chrom: str, window: _Window, gene_id: str) -> list[WindowGene]:
    found = []
    for gene in annotation.genes:
        for place in gene.places:
            # The gene itself begins where its window ends when there is no downstream part.
            own = gene.gene_id == gene_id
            if place.chrom != chrom or not (own or (window.start < place.end and place.start < window.end)):
                continue
            transcript = gene.representative()
            start, end = window.positions(place.start, place.end)
            coding = None
            if transcript is not None and transcript.cds_length:
                coding = window.positions(transcript.cds_start, transcript.cds_end)
            found.append(
                WindowGene(
                    name=gene.name or gene.gene_id,
                    start=start,
                    end=end,
                    coding=coding,
                    forward=(place.strand != "-") == window.forward,
                    own=own,
                )
            )
    return sorted(found, key=lambda other: (other.start, other.end, other.name))


def _anchor(annotation: Annotation, window: _Window, gene_id: str, anchor: Anchor) -> int | None:
    for gene in annotation.genes:
        if gene.gene_id == gene_id:
            found = find_anchor(gene, WindowSettings(anchor=anchor))
            if not found.reason:
                return window.positions(found.position, found.position + 1)[0]
            LOGGER.warning(f"{annotation.path}: gene {gene_id!r} has no {anchor.upper()} ({found.reason})")
            return None
    LOGGER.warning(
        f"{annotation.path}: has no gene {gene_id!r}, so positions are counted from the window's first base; "
        "if it has another id there, --id-attribute names the attribute"
    )
    return None


def window_sequence(attention: AttentionFile, gene: str, promoters: Path) -> WindowSequence:
    """The bases of a gene's window, from the FASTA of the attention file.

    Raises: BioattnError when the FASTA lacks the gene or has it at another position.
    """
    place: dict[Any, Any] = attention.samples.loc[gene].to_dict()
    counts = np.zeros(UNKNOWN + 1, dtype=np.int64)
    own: Promoter | None = None
    for promoter in read_promoters(promoters):
        counts += np.bincount(promoter.codes, minlength=UNKNOWN + 1)
        if promoter.gene_id == gene:
            own = promoter
    if own is None:
        raise BioattnError(
            f"{promoters}: has no record {gene!r}; give the FASTA that the attention was made of"
        )
    if (own.chrom, own.start, own.end, own.strand) != tuple(
        place[name] for name in ("chrom", "start", "end", "strand")
    ):
        raise BioattnError(
            f"{promoters}: {gene!r} lies at {own.chrom}:{own.start}-{own.end}({own.strand}), in {attention.path} "
            f"at {place['chrom']}:{place['start']}-{place['end']}({place['strand']}); give that FASTA"
        )
    bases = own.codes[own.flank : len(own.codes) - own.flank]
    if len(bases) > attention.window_length:
        raise BioattnError(
            f"{promoters}: {gene!r} has {len(bases):,} bases, the window of {attention.path} has "
            f"{attention.window_length:,}"
        )
    codes = np.full(attention.window_length, UNKNOWN, dtype=np.uint8)
    codes[attention.window_length - len(bases) :] = bases
    return WindowSequence(codes, base_composition(np.repeat(np.arange(5), counts).astype(np.uint8)))


def is_site_table(path: Path) -> bool:
    """Whether a file lists sites (a table with gene_id, motif, start, end, strand) and not motifs."""
    try:
        return set(_SITE_COLUMNS) <= set(open_table(path).header)
    except FormatError:
        return False


def sites_of_table(path: Path, gene: str, window_length: int) -> list[MotifSite]:
    """The sites of one gene in a table such as a truth table or the edge list of `export motifs`.

    Raises: FormatError, with the line, when a position lies outside the window.
    """
    table = open_table(path)
    sites = []
    for line, cells in table.rows():
        row = dict(zip(table.header, cells, strict=True))
        if row["gene_id"] != gene:
            continue
        try:
            start, end = int(row["start"]), int(row["end"])
        except ValueError:
            raise FormatError(
                f"{path}:{line}: start {row['start']!r} and end {row['end']!r} must be whole numbers"
            ) from None
        if not 0 <= start < end <= window_length:
            raise FormatError(
                f"{path}:{line}: {start} to {end} is no part of the window's {window_length} positions"
            )
        site = MotifSite(row["motif"], start, end, row["strand"], row.get("treatment", ""), 0.0)
        if site not in sites:
            sites.append(site)
    return sites


def scanned_sites(path: Path, sequence: WindowSequence, p_value: float = 1e-4) -> list[MotifSite]:
    """Matches of the motifs of a file (MEME, JASPAR, TRANSFAC) in a window, best first.

    Background: the bases of all promoters. A palindromic motif counts once. Raises: FormatError.
    """
    motifs = read_meme(path).motifs
    hits = find_motif_hits(sequence.codes[None], motifs, background=sequence.composition, p_value=p_value)
    if not len(hits):
        LOGGER.info(f"no motif of {path} matches this promoter with p < {p_value:g}, so none is drawn")
    names = {motif.name: _shown_name(motif) for motif in motifs}
    best: dict[tuple[str, int, int], MotifSite] = {}
    columns = (hits[name].tolist() for name in ("motif", "start", "end", "strand", "p_value"))
    for motif, start, end, strand, rank in zip(*columns, strict=True):
        site = MotifSite(names[motif], start, end, strand, "", rank)
        key = (motif, start, end)
        if key not in best or site.rank < best[key].rank:
            best[key] = site
    return sorted(best.values(), key=lambda site: (site.rank, site.start, site.motif))


def _shown_name(motif: Motif) -> str:
    """The name shown: ARG80 rather than MA0271.1, but not a consensus that stands in place of a name."""
    other = motif.alternative_name
    is_consensus = len(other) == motif.width and set(other.upper()) <= set("ACGT" + AMBIGUITY_LETTERS)
    return motif.name if is_consensus or not other else other


def lanes(intervals: Sequence[tuple[float, float]], number: int) -> list[int]:
    """Assign each interval a lane 0..number - 1 without overlaps, in the given order; -1 = no room.

    >>> lanes([(0, 2), (1, 3), (2.5, 4), (1, 4)], 2)
    [0, 1, 0, -1]
    """
    taken: list[list[tuple[float, float]]] = [[] for _ in range(number)]
    chosen = []
    for start, end in intervals:
        free = (
            lane
            for lane, others in enumerate(taken)
            if all(end <= first or start >= last for first, last in others)
        )
        lane = next(free, -1)
        if lane >= 0:
            taken[lane].append((start, end))
        chosen.append(lane)
    return chosen
