"""Promoters as windows of equal length: of a FASTA file, or of what a caller has in memory."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import LETTERS, encode
from bioattn.inference.inputs import HELD, Source, path_in, sequences_in
from bioattn.io.files import sha256_of
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.promoters.promoter_fasta import Promoter, described_promoter, read_promoters
from bioattn.store.windows import promoter_samples

N_CODE = 4


@dataclass(frozen=True)
class Promoters(Source):
    """Promoters fit for a model, in the order of their file. A batch is a part of them.

    items: codes (N, length), 5'→3', flanks cut off, shorter promoters padded with N on the left (upstream), longer
    ones cut.
    """

    path: Path = HELD
    """Of their file; in memory a name for messages."""
    num_padded: int = 0
    """Those that are shorter than the model's window."""
    num_cut: int = 0
    """Those that are longer."""
    unplaced: bool = False
    """Whether one does not say where position 0 of its gene is, and so ends where the window does."""
    downstream: int | None = None
    """Bases of every window from position 0 of its gene on; None when that is not known of all alike."""
    genes: frozenset[str] | None = None
    """Ids of the promoters asked for; None = all of the file."""

    @property
    def codes(self) -> NDArray[np.uint8]:
        """(N, length), 5'→3'."""
        return np.asarray(self.items)

    @cached_property
    def sha256(self) -> str:
        """Of the file; in memory, of the names and the codes."""
        if self.path != HELD:
            return sha256_of(self.path)
        digest = hashlib.sha256("\0".join(self.samples.ids).encode())
        digest.update(self.codes.tobytes())
        return digest.hexdigest()


def hold_promoters(
    inputs: Any, length: int, downstream: int | None = None, genes: Sequence[str] = ()
) -> Promoters:
    """Promoters of anything that `bioattn.inference.inputs` reads, or of a FASTA file, a byte for each base.

    length: bases of the model's window. downstream: bases of it from position 0 of its gene on, for promoters that
    do not say it. genes: ids, names or files of them as `choose_genes` takes them, none = all promoters.

    Raises: FormatError for what `read_promoters` refuses, and for promoters that end before the model's window
    does; BioattnError when there are none, and for genes that are not there.
    """
    path = path_in(inputs, LETTERS + LETTERS.lower())
    if path is not None:
        promoters = list(read_promoters(path))
    else:
        promoters = [_held(*each) for each in zip(*sequences_in(inputs, numbers=True), strict=True)]
    where = path or HELD
    if not promoters:
        raise BioattnError(f"{where}: holds no promoters")
    said = {promoter.downstream for promoter in promoters}
    wanted = None
    if genes:
        wanted = frozenset(choose_genes(genes, GeneNames.of(promoters), where))
        promoters = [promoter for promoter in promoters if promoter.gene_id in wanted]
    known = said.pop() if len(said) == 1 else None
    return replace(
        make_batch(promoters, length, where, downstream),
        path=where,
        downstream=known if downstream is None else downstream,
        genes=wanted,
    )


def _held(name: str, sequence: str, description: str) -> Promoter:
    """A promoter in memory; of Biopython's records the description says where it lies, if the lengths agree."""
    where = f"{HELD}: {name!r}"
    codes = encode(sequence, where)
    try:
        return described_promoter(name, description, codes, where)
    except FormatError:
        return described_promoter(name, "", codes, where)


def refitted(source: Promoters) -> str:
    """A sentence that says how many promoters were padded or cut; empty where none was."""
    told = []
    kept = "their end, as they do not say where position 0 is" if source.unplaced else "its window"
    last = ""
    if source.unplaced and source.downstream is not None:
        last = f", their last base as position {source.downstream - 1}"
    for number, how, done in (
        (source.num_padded, "do not fill", f"padded with N upstream{last}"),
        (source.num_cut, "reach beyond", f"cut to {kept}"),
    ):
        if number:
            told.append(
                f"{number:,} of {source.num_samples:,} promoters {how} the model's "
                f"{source.codes.shape[1]:,} bases and were {done}"
            )
    return "; ".join(told)


def make_batch(
    promoters: list[Promoter], length: int, path: Path = HELD, downstream: int | None = None
) -> Promoters:
    """Stack promoters as windows of `length` bases that end `downstream` bases after position 0 of the gene, or
    where the promoter ends if it or the model does not say where position 0 is.

    Raises: FormatError for a promoter that ends before. path: for messages.
    """
    codes_NL = np.full((len(promoters), length), N_CODE, dtype=np.uint8)
    starts, ends = [], []
    padded = cut = 0
    for row_L, promoter in zip(codes_NL, promoters, strict=True):
        window = promoter.codes[promoter.flank : promoter.codes.size - promoter.flank]
        after = 0
        if downstream is not None and promoter.downstream is not None:
            after = promoter.downstream - downstream
        if after < 0:
            raise FormatError(
                f"{path}: promoter {promoter.gene_id!r} has {promoter.downstream:,} bases from position 0 of the "
                f"gene on, the model sees {downstream:,}; prepare promoters with --downstream {downstream}"
            )
        before = max(0, window.size - after - length)
        cut += bool(before or after)
        kept = window[before : window.size - after]
        row_L[length - kept.size :] = kept
        padded += kept.size < length
        if promoter.strand == "-":
            before, after = after, before
        placed = promoter.strand != "."
        starts.append(promoter.start + before * placed)
        ends.append(promoter.end - after * placed)
    names = ([getattr(each, name) for each in promoters] for name in ("gene_id", "chrom", "strand", "name"))
    gene_ids, chrom, strand, common = names
    samples = promoter_samples(gene_ids, chrom, starts, ends, strand, common)
    unplaced = any(promoter.downstream is None for promoter in promoters)
    return Promoters(codes_NL, samples, num_padded=padded, num_cut=cut, unplaced=unplaced)
