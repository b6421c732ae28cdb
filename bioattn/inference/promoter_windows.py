"""Promoters as batches of equal length: of a FASTA file, streamed, or in memory."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import LETTERS, encode
from bioattn.inference.inputs import HELD, codes_in, path_in, sequences_in
from bioattn.io.files import sha256_of
from bioattn.promoters.genes import choose_genes
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


@dataclass(frozen=True, kw_only=True)
class HeldPromoters:
    """Promoters in memory, fit for a model."""

    path: Path
    """Of their file; in memory a name for messages."""
    length: int
    """Bases of the model's window."""
    num_padded: int
    downstream: int | None
    batch: PromoterBatch
    genes: frozenset[str] | None = None

    @property
    def num_samples(self) -> int:
        return len(self.batch.codes)

    @cached_property
    def sha256(self) -> str:
        """Of the names and the codes."""
        digest = hashlib.sha256("\0".join(self.batch.samples.ids).encode())
        digest.update(self.batch.codes.tobytes())
        return digest.hexdigest()

    def part(self, rows: slice) -> "HeldPromoters":
        return replace(self, batch=PromoterBatch(self.batch.samples.part(rows), self.batch.codes[rows]))

    def batches(self, size: int) -> Iterator[PromoterBatch]:
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size)).batch


def hold_promoters(
    inputs: Any, length: int, downstream: int | None = None, genes: Sequence[str] = ()
) -> HeldPromoters:
    """Promoters of anything that `bioattn.inference.inputs` reads, or of a FASTA file.

    downstream: bases of a window from position 0 of its gene on, for promoters that do not say it. genes: as
    `scan_promoters` takes them.

    Raises: as `scan_promoters`.
    """
    path = path_in(inputs, LETTERS)
    if path is not None:
        promoters = list(read_promoters(path))
        if genes:
            wanted = set(choose_genes(genes, [promoter.gene_id for promoter in promoters], path))
            promoters = [promoter for promoter in promoters if promoter.gene_id in wanted]
    elif codes := codes_in(inputs):
        promoters = _unplaced(zip(*codes, strict=True))
    else:
        given = sequences_in(inputs)
        promoters = _unplaced(
            (name, encode(sequence, f"{HELD}: {name!r}")) for name, sequence in zip(*given, strict=True)
        )
    where = path or HELD
    if not promoters:
        raise BioattnError(f"{where}: holds no promoters")
    said = {promoter.downstream for promoter in promoters}
    known = said.pop() if len(said) == 1 else None
    return HeldPromoters(
        path=where,
        length=length,
        num_padded=sum(_window(promoter, length, where) < length for promoter in promoters),
        downstream=downstream if known is None else known,
        batch=make_batch(promoters, length),
        genes=frozenset(promoter.gene_id for promoter in promoters) if genes else None,
    )


def padding(source: PromoterSource | HeldPromoters) -> str:
    """A sentence that says how many promoters were padded; empty where none was."""
    if not source.num_padded:
        return ""
    return (
        f"{source.num_padded:,} of {source.num_samples:,} promoters are shorter than the model's "
        f"{source.length:,} bases and were padded with N upstream"
    )


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
        window = _window(promoter, length, path)
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


def _unplaced(named: Iterable[tuple[str, NDArray[np.uint8]]]) -> list[Promoter]:
    """Promoters that no annotation says where they lie."""
    return [Promoter(name, "", -1, -1, ".", 0, codes) for name, codes in named]


def _window(promoter: Promoter, length: int, path: Path) -> int:
    """Bases of a promoter without flanks. Raises: FormatError for more than the model sees."""
    window = promoter.codes.size - 2 * promoter.flank
    if window > length:
        raise FormatError(
            f"{path}: promoter {promoter.gene_id!r} has {window:,} bases, the model sees {length:,}; prepare "
            "promoters with the windows that the model was trained on"
        )
    return window
