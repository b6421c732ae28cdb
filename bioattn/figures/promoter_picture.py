"""The data of the picture `attention` of one promoter, from the attention file and optional further files.

Window positions are 0-based and half-open, from the window's first base in the direction of the gene.

Shape suffixes: T treatments, L bases of the window.
"""

import logging
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import require_names
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.figures.style import FLAT, colour_of
from bioattn.figures.treatment_maps import window_zero
from bioattn.formats.genes import STRANDS
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import AMBIGUITY_LETTERS
from bioattn.formats.tables import open_table
from bioattn.interpret.choices import HIT_P_VALUE, Upsampling
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.interpret.promoter_maps import (
    ALL_TREATMENTS,
    Quantity,
    attention_maps,
    attribution_beside,
    chosen_quantity,
    codes_of_genes,
)
from bioattn.interpret.promoter_windows import AnnotatedGenes, WindowGene, window_of
from bioattn.promoters.choices import Anchor, WindowSettings
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.promoters.preparation import find_anchor
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.attribution import Attribution
from bioattn.store.reader import Attention
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")

MOST_TREATMENTS = 6
_REGION = re.compile(r"(-?\d{1,9})(?:\.\.|:|-)(-?\d{1,9})")
_SITE_COLUMNS = ("gene_id", "motif", "start", "end", "strand")
"""Of a table that lists sites of motifs."""


class Region(NamedTuple):
    """Interval of the window in bases, 0-based and half-open."""

    start: int
    end: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterPicture:
    """The data of the figure."""

    title: str
    colours: dict[str, str]
    """Of the treatments that are drawn; a treatment has its colour whichever others are drawn."""
    tracks: dict[Quantity, NDArray[np.float64]]
    """(T, L) by what they are of: contributions or attention, then attribution where it is given. Attention is in
    multiples of uniform attention, the others in units of the response (binary models: log-odds; positive = raises
    it); with `reference`, differences from it."""
    shown: Region
    reference: str | None = None
    predictions: list[float] | None = None
    task: str = "regression"
    zero: int | None = None
    """The window position that the axis labels 0; None = the axis counts from the window's first base."""
    genes: list[WindowGene] | None = None
    sites: list[MotifSite] | None = None
    method: str = ""
    codes: NDArray[np.uint8] | None = None
    """(L,) bases, 4 = unknown."""

    def record(self) -> dict[str, Any]:
        """The figures of the run record."""
        sites, quantity = len(self.sites or []), str(self.shown_first)
        return {"treatments": self.treatments, "motif_sites": sites, "quantity": quantity}

    @property
    def shown_first(self) -> Quantity:
        """What the main tracks are of."""
        return next(iter(self.tracks))

    @property
    def treatments(self) -> list[str]:
        """The drawn treatments, in the order of the rows of the arrays."""
        return list(self.colours)

    @property
    def offset(self) -> int:
        """The axis label of the window's first base."""
        return -(self.zero or 0)


def read_promoter_picture(
    attention: Attention,
    *,
    gene: str,
    treatments: Sequence[str] | None = None,
    against: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    weights: bool = False,
    upsampling: Upsampling = Upsampling.GAUSSIAN,
    region: str | None = None,
    zero: int | str | None = None,
    annotation: Path | None = None,
    id_attribute: str | None = None,
    motifs: Path | None = None,
    promoters: Path | None = None,
    attribution: Path | Attribution | None = None,
) -> PromoterPicture:
    """Read the data of the figure.

    treatments: None = all, or the six of lowest and highest prediction. weights: attention also where it has
    contributions, which are shown otherwise. region: the first and the last position as
    the axis counts, the last one not included. zero: as `window_zero`; with `annotation` an `Anchor`.
    motifs: a database of motifs to look for in the bases of `promoters` or `attribution`, or a table of sites.

    Raises: BioattnError for what a file does not hold; SettingsError for options that contradict each other.
    """
    if attention.inputs == "promoters":
        (gene,) = choose_genes([gene], GeneNames.in_samples(attention.samples), attention.path, "--gene")
    in_file = Attribution.open(attribution) if isinstance(attribution, Path) else nullcontext(attribution)
    with in_file as results:
        whole = attention_maps(attention, sites, heads, chosen_quantity(weights=weights)).distinct
        if attention.inputs == "promoters" and not treatments:
            treatments = _extreme_treatments(attention, whole.treatments, results, gene)
        maps, length = whole.averaged([gene], treatments, against), attention.window_length
        tracks = {maps.quantity: maps.per_base(maps.block(slice(0, 1))[0], upsampling)}
        colours = {name: colour_of(whole.treatments.index(name)) for name in maps.treatments}
        codes, composition, method = None, np.full(4, 0.25), ""
        if results is None:
            values_TL = tracks[maps.quantity]
            subject = f"{attention.path}: {maps.quantity} of {gene}"
            drawn = _not_flat(values_TL, maps.treatments, subject, against)
            colours = {name: colours[name] for name, kept in zip(maps.treatments, drawn, strict=True) if kept}
            tracks = {maps.quantity: values_TL[drawn]}
        else:
            beside = attribution_beside(results, attention)
            require_names("--gene", [gene], beside.genes, results.path, "gene")
            tracks[beside.quantity] = beside.averaged([gene], maps.treatments, against).block(slice(1))[0]
            assert beside.codes is not None
            codes, method = beside.codes[beside.genes.index(gene)], beside.method
            composition = base_composition(beside.codes)
    genes = None
    if annotation is None:
        zero = window_zero(attention, zero)
    elif zero is not None and zero not in tuple(Anchor):
        raise SettingsError(f"--zero {zero}: --annotation tells where position 0 is; leave one of them out")
    else:
        anchor = Anchor(zero or Anchor.TSS)
        genes, zero = window_genes(attention, gene, annotation, anchor=anchor, id_attribute=id_attribute)
    if promoters is not None:
        codes = codes_of_genes(promoters, attention, attention.samples.loc[[gene]])[0]
        composition = base_composition(np.concatenate([each.codes for each in read_promoters(promoters)]))
    predictions = None
    if attention.treatments and against is None and maps.treatments != [ALL_TREATMENTS]:
        predictions = np.asarray(attention.predictions()[list(colours)].loc[gene], np.float64).tolist()
    title, window = GeneNames.in_samples(attention.samples).shown(gene), window_of(attention, gene)
    if window.strand in STRANDS:
        strand = window.strand.replace("-", "−")
        title += f"   {window.chrom}:{window.start + 1:,}–{window.end:,} ({strand})"
    return PromoterPicture(
        title=title,
        colours=colours,
        tracks=tracks,
        shown=Region(0, length) if region is None else parse_region(region, zero, length),
        reference=against,
        predictions=predictions,
        task=attention.task,
        zero=zero,
        genes=genes,
        sites=None if motifs is None else _motif_sites(motifs, gene, length, codes, composition),
        method=method,
        codes=codes,
    )


def _extreme_treatments(
    attention: Attention, known: list[str], attribution: Attribution | None, gene: str
) -> list[str]:
    """At most six of the known treatments that the attribution has too, half with the lowest and half with the
    highest prediction, in order.
    """
    names = [name for name in known if attribution is None or name in attribution.treatments] or known
    if len(names) <= MOST_TREATMENTS:
        return names
    half = MOST_TREATMENTS // 2
    order = np.argsort(attention.predictions().loc[gene, names].to_numpy(), kind="stable")
    LOGGER.info(
        f"of {len(names)} treatments the {MOST_TREATMENTS} of lowest and highest prediction are drawn; name "
        "others with --treatment"
    )
    return [names[index] for index in sorted([*order[:half], *order[-half:]])]


def _not_flat(
    values_TL: NDArray[np.float64], treatments: Sequence[str], subject: str, against: str | None
) -> NDArray[np.bool_]:
    """(T,) which rows are more than a flat line; warns of the others. Raises: BioattnError when none is."""
    flat: NDArray[np.bool_] = np.ptp(values_TL, axis=1) <= FLAT * min(1.0, np.abs(values_TL).max())
    if flat.all():
        what = "is the same at every position" if against is None else "differs nowhere"
        raise BioattnError(f"{subject} {what}, under {quoted(treatments)}; there is nothing to draw")
    if flat.any():
        names = [name for name, left_out in zip(treatments, flat, strict=True) if left_out]
        LOGGER.warning(f"left out, as it is the same at every position: {quoted(names)}")
    return ~flat


def parse_region(text: str, zero: int | None, length: int) -> Region:
    """`-150:-90` or `120-180`, as the axis counts → bases of the window.

    Raises: SettingsError for another form, BioattnError for bases outside of the window.

    >>> parse_region("-150:-90", 200, 200)
    Region(start=50, end=110)
    """
    match = _REGION.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"--region {text!r}: give two positions such as 120-180 or -150:-90")
    region = Region(int(match[1]) + (zero or 0), int(match[2]) + (zero or 0))
    if not 0 <= region.start < region.end <= length:
        raise BioattnError(
            f"--region {text}: the window has the positions {-(zero or 0)} to {length - (zero or 0)}; give "
            "two of them, the first before the second"
        )
    return region


def window_genes(
    attention: Attention,
    gene: str,
    annotation: Path,
    *,
    anchor: Anchor = Anchor.TSS,
    id_attribute: str | None = None,
) -> tuple[list[WindowGene], int | None]:
    """Genes of an annotation file in the window of `gene`, and the window position of its anchor.

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
    genes = known.in_window(gene, window, length)
    if gene not in known.by_id:
        LOGGER.warning(
            f"{annotation}: has no gene {gene!r}, so positions are counted from the window's first base; "
            "if it has another id there, --id-attribute names the attribute"
        )
        return genes, None
    start = find_anchor(known.annotation.genes[known.by_id[gene]], WindowSettings(anchor=anchor))
    if start.reason:
        LOGGER.warning(f"{annotation}: gene {gene!r} has no {anchor.upper()} ({start.reason})")
        return genes, None
    return genes, window.positions(start.position, start.position + 1, length)[0]


def _motif_sites(
    path: Path,
    gene: str,
    window_length: int,
    codes: NDArray[np.uint8] | None,
    composition: NDArray[np.float64],
) -> list[MotifSite]:
    """The sites of a table (gene_id, motif, start, end, strand), or matches of the motifs of a database."""
    try:
        table = open_table(path)
    except FormatError:
        table = None
    if table is None or not set(_SITE_COLUMNS) <= set(table.header):
        if codes is None:
            raise BioattnError(f"{path}: to look for motifs, add the promoter FASTA")
        return _scanned_sites(path, codes, composition)
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
        sites.append(MotifSite(row["motif"], start, end, row["strand"], row.get("treatment", ""), 0.0))
    return list(dict.fromkeys(sites))


def _scanned_sites(path: Path, codes: NDArray[np.uint8], composition: NDArray[np.float64]) -> list[MotifSite]:
    """Matches of the motifs of a file (MEME, JASPAR, TRANSFAC) in a window, best first.

    composition: frequencies of the bases of all promoters, (4,). A palindromic motif counts once.
    """
    motifs = read_meme(path).motifs
    hits = find_motif_hits(codes[None], motifs, background=composition)
    if not len(hits):
        LOGGER.info(f"no motif of {path} matches this promoter with p < {HIT_P_VALUE:g}, so none is drawn")
    names = {}
    for motif in motifs:
        # ARG80 rather than MA0271.1, but not a consensus that stands in place of a name.
        other = motif.alternative_name
        is_consensus = len(other) == motif.width and set(other.upper()) <= set("ACGT" + AMBIGUITY_LETTERS)
        names[motif.name] = motif.name if is_consensus or not other else other
    best: Any = hits.sort_values("p_value", kind="stable").drop_duplicates(["motif", "start", "end"])
    sites = [
        MotifSite(names[hit.motif], hit.start, hit.end, hit.strand, "", hit.p_value)
        for hit in best.itertuples()
    ]
    return sorted(sites, key=lambda site: (site.rank, site.start, site.motif))
