"""Features of a promoter's window: genes of an annotation, and motif sites.

Window positions are 0-based and half-open, from the window's first base in the direction of the gene.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import STRANDS
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import AMBIGUITY_LETTERS
from bioattn.formats.tables import open_table
from bioattn.interpret.maps.window_genes import AnnotatedGenes, Window, WindowGene, window_of
from bioattn.interpret.motifs.hits import find_motif_hits
from bioattn.promoters.choices import Anchor
from bioattn.promoters.windows import WindowSettings, find_anchor
from bioattn.store.reader import Attention
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")

_SITE_COLUMNS = ("gene_id", "motif", "start", "end", "strand")


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


def window_genes(
    attention: Attention,
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
    window = window_of(attention, gene)
    if window.strand not in STRANDS:
        raise BioattnError(
            f"{attention.path}: does not say where gene {gene!r} lies, as its sequence file did not, so no "
            "annotation can be drawn; leave --annotation out"
        )
    known = AnnotatedGenes(annotation, id_attribute)
    chromosomes = known.annotation.chromosomes
    if window.chrom not in chromosomes:
        raise BioattnError(
            f"{annotation}: has no gene on chromosome {window.chrom!r} of {gene!r}; its chromosomes are "
            f"{quoted(chromosomes)}"
        )
    length = attention.window_length
    return known.in_window(gene, window, length), _anchor(known, window, gene, anchor, length)


def _anchor(known: AnnotatedGenes, window: Window, gene_id: str, anchor: Anchor, length: int) -> int | None:
    path = known.annotation.path
    if gene_id not in known.by_id:
        LOGGER.warning(
            f"{path}: has no gene {gene_id!r}, so positions are counted from the window's first base; "
            "if it has another id there, --id-attribute names the attribute"
        )
        return None
    found = find_anchor(known.annotation.genes[known.by_id[gene_id]], WindowSettings(anchor=anchor))
    if not found.reason:
        return window.positions(found.position, found.position + 1, length)[0]
    LOGGER.warning(f"{path}: gene {gene_id!r} has no {anchor.upper()} ({found.reason})")
    return None


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


def scanned_sites(
    path: Path, codes: NDArray[np.uint8], composition: NDArray[np.float64], p_value: float = 1e-4
) -> list[MotifSite]:
    """Matches of the motifs of a file (MEME, JASPAR, TRANSFAC) in a window, best first.

    codes: of the window. composition: frequencies of the bases of all promoters, (4,). A palindromic motif counts
    once. Raises: FormatError.
    """
    motifs = read_meme(path).motifs
    hits = find_motif_hits(codes[None], motifs, background=composition, p_value=p_value)
    if not len(hits):
        LOGGER.info(f"no motif of {path} matches this promoter with p < {p_value:g}, so none is drawn")
    names = {}
    for motif in motifs:
        # ARG80 rather than MA0271.1, but not a consensus that stands in place of a name.
        other = motif.alternative_name
        is_consensus = len(other) == motif.width and set(other.upper()) <= set("ACGT" + AMBIGUITY_LETTERS)
        names[motif.name] = motif.name if is_consensus or not other else other
    best: dict[tuple[str, int, int], MotifSite] = {}
    columns = (hits[column].tolist() for column in ("motif", "start", "end", "strand", "p_value"))
    for name, start, end, strand, rank in zip(*columns, strict=True):
        site = MotifSite(names[name], start, end, strand, "", rank)
        key = (name, start, end)
        if key not in best or site.rank < best[key].rank:
            best[key] = site
    return sorted(best.values(), key=lambda site: (site.rank, site.start, site.motif))


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
