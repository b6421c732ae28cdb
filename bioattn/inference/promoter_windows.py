"""Promoters as windows of equal length: of a FASTA file, or of what a caller has in memory."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import LETTERS, encode
from bioattn.inference.inputs import HELD, codes_in, path_in, sequences_in
from bioattn.inference.run import Source
from bioattn.io.files import sha256_of
from bioattn.promoters.genes import choose_genes
from bioattn.promoters.promoter_fasta import Promoter, read_promoters
from bioattn.store.windows import promoter_samples

N_CODE = 4


@dataclass(frozen=True)
class Promoters(Source):
    """Promoters fit for a model, in the order of their file. A batch is a part of them.

    items: codes (N, length), 5'→3', flanks cut off, shorter promoters padded with N on the left (upstream).
    """

    path: Path = HELD
    """Of their file; in memory a name for messages."""
    num_padded: int = 0
    """Those that are shorter than the model's window."""
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
    do not say it. genes: ids or files of ids as `choose_genes` takes them, none = all promoters.

    Raises: FormatError for what `read_promoters` refuses, and for promoters longer than `length`; BioattnError
    when there are none, and for genes that are not there.
    """
    path = path_in(inputs, LETTERS)
    if path is not None:
        promoters = list(read_promoters(path))
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
    wanted = None
    if genes:
        wanted = frozenset(choose_genes(genes, [promoter.gene_id for promoter in promoters], where))
        promoters = [promoter for promoter in promoters if promoter.gene_id in wanted]
    known = said.pop() if len(said) == 1 else None
    return replace(
        make_batch(promoters, length, where),
        path=where,
        downstream=downstream if known is None else known,
        genes=wanted,
    )


def padding(source: Promoters) -> str:
    """A sentence that says how many promoters were padded; empty where none was."""
    if not source.num_padded:
        return ""
    return (
        f"{source.num_padded:,} of {source.num_samples:,} promoters are shorter than the model's "
        f"{source.codes.shape[1]:,} bases and were padded with N upstream"
    )


def make_batch(promoters: list[Promoter], length: int, path: Path = HELD) -> Promoters:
    """Stack promoters of at most `length` bases, their right (3') ends aligned.

    Raises: FormatError for one with more bases. path: for messages.
    """
    codes_NL = np.full((len(promoters), length), N_CODE, dtype=np.uint8)
    padded = 0
    for row_L, promoter in zip(codes_NL, promoters, strict=True):
        window = promoter.codes[promoter.flank : promoter.codes.size - promoter.flank]
        if window.size > length:
            raise FormatError(
                f"{path}: promoter {promoter.gene_id!r} has {window.size:,} bases, the model sees {length:,}; "
                "prepare promoters with the windows that the model was trained on"
            )
        row_L[length - window.size :] = window
        padded += window.size < length
    table = ("gene_id", "chrom", "start", "end", "strand")
    samples = promoter_samples(*([getattr(each, name) for each in promoters] for name in table))
    return Promoters(codes_NL, samples, num_padded=padded)


def _unplaced(named: Iterable[tuple[str, NDArray[np.uint8]]]) -> list[Promoter]:
    """Promoters that no annotation says where they lie."""
    return [Promoter(name, "", -1, -1, ".", 0, codes) for name, codes in named]
