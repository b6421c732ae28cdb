"""The data of `plot attention` for one promoter, from the attention file and optional further files.

Shape suffixes: T treatments, L bases of the window.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import require_names
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures.style import FLAT, colour_of
from bioattn.figures.treatment_maps import ALL_TREATMENTS, choose_treatments, read_treatment_maps, window_zero
from bioattn.figures.window_features import (
    MotifSite,
    is_site_table,
    scanned_sites,
    sites_of_table,
    window_genes,
)
from bioattn.formats.genes import STRANDS
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.contributions import open_contributions
from bioattn.interpret.maps.promoter_maps import codes_of_genes
from bioattn.interpret.maps.upsampling import upsample
from bioattn.interpret.motifs.hits import base_composition
from bioattn.promoters.choices import Anchor
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.reader import open_attention
from bioattn.text import quoted
from bioattn.views.window_genes import WindowGene, window_of

LOGGER = logging.getLogger("bioattn")

MOST_TREATMENTS = 6
"""Number of treatments drawn when none is named."""
_REGION = re.compile(r"(-?\d{1,9})(?:\.\.|:|-)(-?\d{1,9})")


class Region(NamedTuple):
    """Interval of the window in bases, 0-based and half-open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterPicture:
    """The data of the figure."""

    title: str
    treatments: list[str]
    places: list[int]
    """Place of each treatment in the file, from 0, which decides its colour."""
    attention_TL: NDArray[np.float64]
    """Attention per base in multiples of uniform attention; with `reference`, the difference from it."""
    reference: str | None = None
    predictions: list[float] | None = None
    task: str = "regression"
    zero: int | None = None
    """The window position that the axis labels 0; None = the axis counts from the window's first base."""
    genes: list[WindowGene] | None = None
    sites: list[MotifSite] | None = None
    """Motif sites, the most certain first."""
    contributions_TL: NDArray[np.float64] | None = None
    """Contributions of bases in units of the response (binary models: log-odds); positive = raises it. With
    `reference`, differences."""
    contribution_method: str = ""
    contributions_of_bases: bool = False
    """Whether every base has a contribution of its own, not a share of its bin's."""
    codes: NDArray[np.uint8] | None = None
    """(L,) bases, 4 = unknown."""
    region: Region | None = None
    """None = the whole window."""

    @property
    def shown(self) -> Region:
        return self.region or Region(0, self.attention_TL.shape[1])

    def colour(self, treatment: str) -> str:
        """The colour of a treatment, the same whichever others are drawn."""
        return colour_of(self.places[self.treatments.index(treatment)])

    @property
    def offset(self) -> int:
        """The axis label of the window's first base."""
        return -(self.zero or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterRequest:
    """The options of the figure."""

    gene: str
    treatments: Sequence[str] | None = None
    """None = all, or the six of lowest and highest prediction."""
    against: str | None = None
    sites: Sequence[str] | None = None
    heads: Sequence[int] | None = None
    upsampling: Upsampling = Upsampling.GAUSSIAN
    region: str | None = None
    """First and last position as the axis counts, the last one not included."""
    annotation: Path | None = None
    id_attribute: str | None = None
    anchor: Anchor = Anchor.TSS
    upstream: int | None = None
    """Bases of the window before position 0, where no annotation tells; None = as in the file."""
    motifs: Path | None = None
    promoters: Path | None = None
    attribution: Path | None = None


def read_promoter_picture(path: Path, request: PromoterRequest) -> PromoterPicture:
    """Read the data of the figure.

    Raises: BioattnError for what a file does not hold; SettingsError for options that contradict each other.
    """
    if request.annotation is not None and request.upstream is not None:
        raise SettingsError("--upstream says what --annotation says already; leave one of them out")
    with open_attention(path) as attention:
        if not attention.over_alignments:
            require_names("--gene", [request.gene], attention.samples.index, path, "gene")
        chosen = request.treatments
        if not chosen and not attention.over_alignments:
            chosen = choose_treatments(attention, request.gene, MOST_TREATMENTS)
            if chosen is not None:
                LOGGER.info(
                    f"of {len(attention.treatments)} treatments the {len(chosen)} of lowest and highest "
                    "prediction are drawn; name others with --treatment"
                )
        maps = read_treatment_maps(
            attention,
            genes=[request.gene],
            treatments=chosen,
            against=request.against,
            sites=request.sites,
            heads=request.heads,
        )
        length = attention.window_length
        if request.upsampling == "receptive-field" and maps.receptive_field is None:
            raise BioattnError(
                f"--upsample receptive-field: the sites of {path} have different ones, or do not say; choose with "
                "--sites, or another method"
            )
        attention_TL = length * upsample(
            maps.over_heads, maps.key_edges, length, request.upsampling, maps.receptive_field
        )
        codes, composition, contributions_TL = None, np.full(4, 0.25), None
        treatments, drawn = maps.treatments, np.ones(len(maps.treatments), dtype=np.bool_)
        with open_contributions(
            attention,
            request.attribution,
            sites=request.sites,
            heads=request.heads,
            upsampling=request.upsampling,
        ) as contributions:
            if contributions is None:
                drawn = _not_flat(attention_TL, maps.treatments, path, request)
                treatments = [name for name, kept in zip(maps.treatments, drawn, strict=True) if kept]
            else:
                contributions_TL = contributions.of(request.gene, treatments, request.against)
                if contributions.codes_GL is not None:
                    codes = contributions.codes_GL[contributions.genes[request.gene]]
                    composition = base_composition(contributions.codes_GL)
        genes, zero = None, window_zero(length, attention.downstream, request.upstream)
        if request.annotation is not None:
            genes, zero = window_genes(
                attention,
                request.gene,
                request.annotation,
                anchor=request.anchor,
                id_attribute=request.id_attribute,
            )
        if request.promoters is not None:
            codes = codes_of_genes(request.promoters, attention, attention.samples.loc[[request.gene]])[0]
            composition = base_composition(
                np.concatenate([each.codes for each in read_promoters(request.promoters)])
            )
        sites: list[MotifSite] | None = None
        if request.motifs is not None:
            if is_site_table(request.motifs):
                sites = sites_of_table(request.motifs, request.gene, length)
            elif codes is not None:
                sites = scanned_sites(request.motifs, codes, composition)
            else:
                raise BioattnError(f"--motifs {request.motifs}: to look for motifs, add --promoters")
        predictions = None
        if attention.treatments and request.against is None and maps.treatments != [ALL_TREATMENTS]:
            predicted = attention.predictions().loc[request.gene, treatments]
            predictions = [float(value) for value in predicted.to_numpy(np.float64)]
        title, task, window = request.gene, attention.task, window_of(attention, request.gene)
        if window.strand in STRANDS:
            strand = window.strand.replace("-", "−")
            title += f"   {window.chrom}:{window.start + 1:,}–{window.end:,} ({strand})"
    return PromoterPicture(
        title=title,
        treatments=treatments,
        places=np.array(maps.places)[drawn].tolist(),
        attention_TL=attention_TL[drawn],
        reference=request.against,
        predictions=predictions,
        task=task,
        zero=zero,
        genes=genes,
        sites=sites,
        contributions_TL=contributions_TL,
        contribution_method="" if contributions is None else contributions.method,
        contributions_of_bases=contributions is not None and contributions.of_single_bases,
        codes=codes,
        region=None if request.region is None else parse_region(request.region, zero, length),
    )


def _not_flat(
    attention_TL: NDArray[np.float64], treatments: Sequence[str], path: Path, request: PromoterRequest
) -> NDArray[np.bool_]:
    """(T,) which rows are more than a flat line; warns of the others. Raises: BioattnError when none is."""
    flat: NDArray[np.bool_] = np.ptp(attention_TL, axis=1) < FLAT
    if flat.all():
        what = "is the same at every position" if request.against is None else "differs nowhere"
        raise BioattnError(
            f"{path}: attention to {request.gene} {what}, under {quoted(treatments)}; there is nothing to draw"
        )
    if flat.any():
        names = [name for name, left_out in zip(treatments, flat, strict=True) if left_out]
        LOGGER.warning(f"left out, as attention is the same at every position: {quoted(names)}")
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
