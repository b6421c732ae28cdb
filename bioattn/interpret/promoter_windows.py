"""What lies in the window of a promoter beside its maps: what each base adds to responses, and genes.

Window positions are 0-based and half-open, from the window's first base in the direction of the gene.

Shape suffixes: T treatments, L bases of the window.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names
from bioattn.errors import BioattnError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.genes import STRANDS
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.position_maps import position_maps, upsample
from bioattn.promoters.windows import GeneSpans, Span
from bioattn.store.attribution import open_attribution
from bioattn.store.reader import Attention


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """Contributions to the responses of single promoters, in their units (of a binary model log-odds)."""

    path: Path
    genes: dict[str, int]
    """Row of each promoter."""
    treatments: list[str]
    method: str
    read: Callable[[str, Sequence[str]], NDArray[np.float64]]
    """(T, L) of a promoter and treatments."""
    codes_GL: NDArray[np.uint8] | None = None
    """Sequences of all promoters of the file, in its order; None where it holds none."""
    of_single_bases: bool = False
    """Whether every base has a contribution of its own, not a share of its bin's."""

    def of(self, gene: str, treatments: Sequence[str], against: str | None = None) -> NDArray[np.float64]:
        """(T, L) of a promoter. against: as `read_treatment_maps` has it, what is subtracted.

        Raises: BioattnError for a promoter or treatment that the file does not hold.
        """
        require_names("--gene", [gene], self.genes, self.path, "gene")
        require_names("--treatment", treatments, self.treatments, self.path)
        values_TL = self.read(gene, treatments)
        if against is not None:
            all_of_them = against == MEAN and MEAN not in self.treatments
            others_TL = self.read(gene, self.treatments if all_of_them else [against])
            values_TL = values_TL - others_TL.mean(axis=0)
        return values_TL


@contextmanager
def open_contributions(
    attention: Attention,
    attribution: Path | None = None,
    *,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    upsampling: Upsampling = Upsampling.NEAREST,
) -> Iterator[Contributions | None]:
    """Contributions of the file `attribution`; without one those of the attention, None where it has none.

    sites, heads, upsampling: of the attention, whose contributions are summed over heads and spread over bases.

    Raises: BioattnError when the attribution is of another model or of other windows than the attention.
    """
    if attribution is None:
        if not any(info.has_contributions for info in attention.sites.values()):
            yield None
            return
        maps = position_maps(attention, sites, heads, contributions=True)
        rows = {str(gene): row for row, gene in enumerate(attention.samples.index)}

        def read(gene: str, names: Sequence[str]) -> NDArray[np.float64]:
            block_1TK = maps.block(slice(rows[gene], rows[gene] + 1))
            block_TK = block_1TK[0, [attention.treatments.index(name) for name in names]]
            return upsample(
                block_TK, maps.key_edges, attention.window_length, upsampling, maps.receptive_field
            )

        yield Contributions(
            path=attention.path,
            genes=rows,
            treatments=attention.treatments,
            method="attention × value",
            read=read,
        )
        return
    with open_attribution(attribution) as file:
        if file.model_sha256 != attention.model_sha256:
            raise BioattnError(
                f"{attribution}: was made with another model than {attention.path}; explain the model of the "
                "attention"
            )
        if file.window_length != attention.window_length:
            raise BioattnError(
                f"{attribution}: has windows of {file.window_length:,} bases, {attention.path} of "
                f"{attention.window_length:,}"
            )
        yield Contributions(
            path=file.path,
            genes={str(gene): row for row, gene in enumerate(file.samples.index)},
            treatments=list(file.treatments),
            method=file.method.replace("-", " ").replace("ism", "in-silico mutagenesis"),
            read=lambda gene, names: file.contributions(gene=gene, treatment=list(names)).astype(np.float64),
            codes_GL=file.sequences(),
            of_single_bases=True,
        )


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
    """Whether the gene has the direction of the window."""
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
