"""What stands around a promoter's attention: its bases, the genes its window reaches into, hits of motifs."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.annotation import read_annotation
from bioattn.formats.nucleotides import LETTERS, UNKNOWN
from bioattn.io.files import sha256_of
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.overlaps import GeneSpans, Span
from bioattn.promoters.promoter_fasta import read_promoters

MAX_HITS = 80
"""Of one promoter; the likeliest are kept."""
HIT_P_VALUE = 1e-4


class Window(NamedTuple):
    """Where a promoter lies, 0-based half-open along the chromosome; strand `.` = not known."""

    chrom: str
    start: int
    end: int
    strand: str


class Neighbour(NamedTuple):
    """A gene in a window, in window positions from 0, 5'→3'."""

    start: int
    end: int
    label: str
    same_strand: bool
    own: bool
    """The promoter's own gene."""


class MotifHit(NamedTuple):
    """A match of a motif, in window positions from 0, 5'→3'."""

    motif: str
    start: int
    end: int
    strand: str
    p_value: float


def sequences_of(
    genes: Sequence[str],
    windows: Sequence[Window],
    length: int,
    *,
    promoters: Path | None,
    input_sha256: str,
    dataset: PromoterDataset | None,
) -> dict[str, NDArray[np.uint8]]:
    """Codes (length,) of each gene's window, filled with N on the left where the promoter is shorter.

    From the promoter FASTA, which must be the file the attention is of, else from the dataset where its windows
    are the same. Raises: BioattnError for another FASTA.
    """
    found: dict[str, NDArray[np.uint8]] = {}
    wanted = set(genes)
    if promoters is not None:
        if input_sha256 and sha256_of(promoters) != input_sha256:
            raise BioattnError(
                f"{promoters}: is not the sequence file that the attention was made from; give that one"
            )
        for promoter in read_promoters(promoters):
            if promoter.gene_id in wanted:
                inner = promoter.codes[promoter.flank : promoter.codes.size - promoter.flank]
                found[promoter.gene_id] = _fitted(inner, length)
    elif dataset is not None and dataset.length == length:
        place = {gene: row for row, gene in enumerate(dataset.gene_ids)}
        inner_GL = dataset.codes[:, dataset.flank : dataset.codes.shape[1] - dataset.flank]
        for gene, window in zip(genes, windows, strict=True):
            row = place.get(gene)
            if row is None or (window.start, window.end) != (dataset.start[row], dataset.end[row]):
                continue
            found[gene] = inner_GL[row]
    return found


def _fitted(codes: NDArray[np.uint8], length: int) -> NDArray[np.uint8]:
    fitted = np.full(length, UNKNOWN, np.uint8)
    part = codes[-length:]
    fitted[length - len(part) :] = part
    return fitted


def letters(codes: NDArray[np.uint8]) -> str:
    """Text of codes."""
    return np.frombuffer(LETTERS.encode(), np.uint8)[codes].tobytes().decode("ascii")


class Annotated:
    """The genes of an annotation by where they lie."""

    def __init__(self, path: Path) -> None:
        self._genes = read_annotation(path).genes
        self._number = {gene.gene_id: number for number, gene in enumerate(self._genes)}
        self._spans = GeneSpans(
            (place.chrom, Span(place.start, place.end, number))
            for number, gene in enumerate(self._genes)
            for place in gene.places
        )

    def name(self, gene: str) -> str:
        """The common name, empty when there is none."""
        number = self._number.get(gene)
        name = "" if number is None else self._genes[number].name
        return "" if name == gene else name

    def neighbours(self, gene: str, window: Window, length: int) -> list[Neighbour]:
        """The genes in a window of `length` bases, the gene itself included."""
        if window.strand not in ("+", "-"):
            return []
        found = []
        for span in self._spans.overlapping(window.chrom, window.start, window.end, -1):
            if window.strand == "+":
                offset = window.end - length
                start, end = span.start - offset, span.end - offset
            else:
                offset = window.start + length
                start, end = offset - span.end, offset - span.start
            other = self._genes[span.gene]
            strand = next(
                place.strand for place in other.places if (place.start, place.end) == (span.start, span.end)
            )
            found.append(
                Neighbour(
                    max(0, start),
                    min(length, end),
                    other.name or other.gene_id,
                    strand == window.strand,
                    other.gene_id == gene,
                )
            )
        return sorted(found, key=lambda each: (each.start, each.end, each.label))


def motif_hits(
    path: Path, sequences: dict[str, NDArray[np.uint8]], leave_out: Collection[str] = ()
) -> dict[str, list[MotifHit]]:
    """The likeliest hits of every promoter by gene, but those of some motifs.

    Raises: FormatError for a damaged motif file.
    """
    from bioattn.formats.meme import read_meme
    from bioattn.interpret.motifs.hits import find_motif_hits

    genes = list(sequences)
    if not genes:
        return {}
    database = read_meme(path)
    table = find_motif_hits(
        np.stack([sequences[gene] for gene in genes]),
        [motif for motif in database.motifs if motif.name not in leave_out],
        background=database.background,
        p_value=HIT_P_VALUE,
    )
    titles = {motif.name: motif.alternative_name or motif.name for motif in database.motifs}
    hits: dict[str, list[MotifHit]] = {}
    for row, part in table.groupby("row", sort=True):
        kept = part.sort_values(["p_value", "start", "motif"], kind="stable").head(MAX_HITS)
        hits[genes[int(str(row))]] = [
            MotifHit(
                titles.get(str(hit.motif), str(hit.motif)),
                int(hit.start),
                int(hit.end),
                str(hit.strand),
                float(f"{hit.p_value:.2g}"),
            )
            for hit in _rows(kept)
        ]
    return hits


def _rows(table: pd.DataFrame) -> Iterable[pd.Series]:
    return (row for _, row in table.sort_values(["start", "end", "motif"], kind="stable").iterrows())
