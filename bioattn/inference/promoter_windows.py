"""Promoter FASTA as batches of equal length, streamed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import sha256_of
from bioattn.promoters.gene_ids import choose_genes
from bioattn.promoters.promoter_fasta import Promoter, read_promoters
from bioattn.store.schema import Samples
from bioattn.store.windows import promoter_samples

N_CODE = 4


class PromoterBatch(NamedTuple):
    """Promoters in file order."""

    samples: Samples
    codes: NDArray[np.uint8]
    """(n, length), 5'→3', flanks cut off, shorter promoters padded with N on the left (upstream)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterSource:
    """A promoter FASTA that was read through once and found fit for a model."""

    path: Path
    length: int
    """Bases of the model's window."""
    num_samples: int
    """Promoters asked for."""
    num_padded: int
    """Promoters asked for, of the whole file, that are shorter than the window."""
    sha256: str
    downstream: int | None
    """Bases of every window from position 0 of its gene on; None when the file does not say it of all alike."""
    genes: frozenset[str] | None = None
    """Ids of the promoters asked for; None = all of the file."""
    first: int = 0
    """Promoters asked for that are passed over."""

    def part(self, rows: slice) -> "PromoterSource":
        return replace(self, first=self.first + rows.start, num_samples=rows.stop - rows.start)

    def batches(self, size: int) -> Iterator[PromoterBatch]:
        chosen = (
            promoter
            for promoter in read_promoters(self.path, names_checked=True)
            if self.genes is None or promoter.gene_id in self.genes
        )
        promoters = islice(chosen, self.first, self.first + self.num_samples)
        while group := list(islice(promoters, size)):
            yield make_batch(group, self.length)


def scan_promoters(path: Path, length: int, genes: Sequence[str] = ()) -> PromoterSource:
    """Read a promoter FASTA through, so that bad records are refused before a model runs.

    genes: ids or files of ids as `choose_genes` takes them, none = all promoters, of which nothing is kept.

    Raises: FormatError for what `read_promoters` refuses, and for promoters longer than `length`; BioattnError
    when there are none, and for genes that are not there.
    """
    number = padded = 0
    short_by_gene: dict[str, bool] = {}
    downstream: set[int | None] = set()
    for promoter in read_promoters(path):
        window = promoter.codes.size - 2 * promoter.flank
        if window > length:
            raise FormatError(
                f"{path}: promoter {promoter.gene_id!r} has {window:,} bases, the model sees {length:,}; prepare "
                "promoters with the windows that the model was trained on"
            )
        number += 1
        padded += window < length
        downstream.add(promoter.downstream)
        if genes:
            short_by_gene[promoter.gene_id] = window < length
    if not number:
        raise BioattnError(f"{path}: holds no promoters")
    chosen = frozenset(choose_genes(genes, short_by_gene, path)) if genes else None
    if chosen is not None:
        number, padded = len(chosen), sum(short_by_gene[gene] for gene in chosen)
    return PromoterSource(
        path=path,
        length=length,
        num_samples=number,
        num_padded=padded,
        sha256=sha256_of(path),
        downstream=downstream.pop() if len(downstream) == 1 else None,
        genes=chosen,
    )


def make_batch(promoters: list[Promoter], length: int) -> PromoterBatch:
    """Stack promoters of at most `length` bases, their right (3') ends aligned."""
    codes = np.full((len(promoters), length), N_CODE, dtype=np.uint8)
    for row, promoter in zip(codes, promoters, strict=True):
        window = promoter.codes[promoter.flank : promoter.codes.size - promoter.flank]
        row[length - window.size :] = window
    return PromoterBatch(
        promoter_samples(
            [promoter.gene_id for promoter in promoters],
            [promoter.chrom for promoter in promoters],
            [promoter.start for promoter in promoters],
            [promoter.end for promoter in promoters],
            [promoter.strand for promoter in promoters],
        ),
        codes,
    )
