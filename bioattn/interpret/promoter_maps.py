"""One map over the bases of every promoter and treatment, whether of attention or of attribution.

Attention is spread from bins over bases (Gaussian) and scaled so that 1 is what each base has where a model looks
everywhere alike; attribution is the contribution of each base, in response units, with its sign, as are the
contributions of attended bins. Maps are read some promoters of one treatment at a time.

Shapes: G promoters, B promoters of a block, L bases of the window.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.position_maps import position_maps, upsample
from bioattn.io.files import sha256_of
from bioattn.io.hdf5 import open_hdf5, text_attribute
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.attribution import Attribution, open_attribution
from bioattn.store.reader import Attention, open_attention
from bioattn.store.schema import ATTRIBUTION_FORMAT

LOGGER = logging.getLogger("bioattn")
ROWS_AT_ONCE = 1024
ATTENTION, ATTRIBUTION = "attention", "attribution"
SIGNS = {"raising": 1, "lowering": -1}
"""Contributions of attended bins are searched twice: where they raise the response, and where they lower it."""
ATTRIBUTED_BASES = 15
"""Width of the stretch that is cut out around a peak of attribution, which points at single bases."""


def open_maps(path: Path) -> AbstractContextManager[Attention | Attribution]:
    """Open a file of attention or of attribution. Raises: FormatError when it is neither."""
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
    return open_attribution(path) if kind == ATTRIBUTION_FORMAT else open_attention(path)


@dataclass(kw_only=True)
class PromoterMaps:
    """Maps of the chosen promoters of one file."""

    kind: str
    """`attention`, `attribution`, `raising` or `lowering`."""
    path: Path
    treatments: list[str]
    samples: pd.DataFrame
    """Location of each promoter by gene id, as in the file."""
    numbers: NDArray[np.int64]
    """(G,) rows of the promoters in the file, ascending."""
    codes: NDArray[np.uint8]
    """(G, L)."""
    reach: int
    """Bases around a peak that may be what it points at."""
    stored: Callable[[NDArray[np.int64], str], NDArray[np.float64]]
    """Values of promoters (rows in the file) for a treatment, over bins or bases, (B, …)."""
    spread: Callable[[NDArray[Any]], NDArray[np.float64]]
    """From these to bases, (B, L)."""
    held: NDArray[np.float32] | None = None
    """Stored values of the reference, (G, …), after `hold_reference`."""

    @property
    def signed(self) -> bool:
        """Whether values are contributions to the response."""
        return self.kind != ATTENTION

    @property
    def length(self) -> int:
        return int(self.codes.shape[1])

    def blocks(self) -> Iterator[slice]:
        """Give the promoters in slices of `ROWS_AT_ONCE`."""
        for first in range(0, len(self.numbers), ROWS_AT_ONCE):
            yield slice(first, min(first + ROWS_AT_ONCE, len(self.numbers)))

    def hold_reference(self, name: str | None) -> None:
        """Keep the maps of a treatment, or with None (or `mean`, unless one is called so) the mean over all."""
        names = self.treatments if name is None or name not in self.treatments else [name]
        blocks = []
        for rows in self.blocks():
            total = sum(self.stored(self.numbers[rows], treatment) for treatment in names)
            blocks.append((np.asarray(total) / len(names)).astype(np.float32))
        self.held = np.concatenate(blocks)

    def read(self, rows: slice, treatment: str) -> NDArray[np.float64]:
        """The map of some promoters, (B, L)."""
        return self.spread(self.stored(self.numbers[rows], treatment))

    def reference(self, rows: slice) -> NDArray[np.float64]:
        """The map of the reference that is held, (B, L)."""
        assert self.held is not None, "hold_reference first"
        return self.spread(self.held[rows])

    def heights(self, rows: slice, treatment: str) -> NDArray[np.float64]:
        """The map in which peaks are sought, less the reference where one is held: not negative, (B, L)."""
        values = self.stored(self.numbers[rows], treatment)
        values = self.spread(values if self.held is None else values - self.held[rows])
        return np.abs(values) if self.kind == ATTRIBUTION else np.maximum(SIGNS.get(self.kind, 1) * values, 0)


def attention_maps(
    attention: Attention,
    promoters: Path,
    *,
    genes: Sequence[str] | None,
    sites: Sequence[str] = ("*",),
    heads: tuple[int, ...] | None = None,
    kind: str = ATTENTION,
) -> PromoterMaps:
    """Maps of attention, averaged over sites and heads, or (a `kind` of `SIGNS`) contributions, added over heads.

    genes: None = all; their bases are those of the FASTA `promoters`.

    Raises: BioattnError as `position_maps`, or when the FASTA lacks a gene or a base.
    """
    reader = position_maps(attention, sites, heads, contributions=kind in SIGNS)
    edges, length = reader.key_edges, attention.window_length

    def spread(bins: NDArray[Any]) -> NDArray[np.float64]:
        bases = upsample(bins, edges, length, Upsampling.GAUSSIAN)
        return bases if kind in SIGNS else length * bases

    numbers = _numbers(attention.samples, genes)
    samples = attention.samples.iloc[numbers]
    return PromoterMaps(
        kind=kind,
        path=attention.path,
        treatments=attention.treatments,
        samples=samples,
        numbers=numbers,
        codes=codes_of_genes(promoters, attention, samples),
        reach=max(*(info.receptive_field or 0 for info in reader.sites), int(np.diff(edges).max())),
        stored=reader.read,
        spread=spread,
    )


def attribution_maps(attribution: Attribution, *, genes: Sequence[str] | None) -> PromoterMaps:
    """Maps of the contributions of bases. genes: None = all."""

    def stored(samples: NDArray[np.int64], treatment: str) -> NDArray[np.float64]:
        block = slice(int(samples[0]), int(samples[-1]) + 1)
        values: NDArray[np.float32] = np.asarray(attribution.contributions(gene=block, treatment=treatment))
        return np.asarray(values[samples - samples[0]], dtype=np.float64)

    numbers = _numbers(attribution.samples, genes)
    return PromoterMaps(
        kind=ATTRIBUTION,
        path=attribution.path,
        treatments=list(attribution.treatments),
        samples=attribution.samples.iloc[numbers],
        numbers=numbers,
        codes=np.asarray(attribution.sequences())[numbers],
        reach=ATTRIBUTED_BASES,
        stored=stored,
        spread=lambda values: np.asarray(values, dtype=np.float64),
    )


def codes_of_genes(promoters: Path, attention: Attention, samples: pd.DataFrame) -> NDArray[np.uint8]:
    """The sequences of `samples` (by gene id) from the FASTA that attention was exported from.

    Returns codes (G, L), right ends aligned, N before them. Warns when the FASTA is another file with the same
    genes at the same places.

    Raises: BioattnError naming a gene that the FASTA lacks or places elsewhere.
    """
    length = attention.window_length
    rows = {gene: number for number, gene in enumerate(samples.index)}
    codes = np.full((len(rows), length), UNKNOWN, dtype=np.uint8)
    places = list(zip(samples["chrom"], samples["start"], samples["end"], samples["strand"], strict=True))
    missing = set(rows)
    for promoter in read_promoters(promoters):
        row = rows.get(promoter.gene_id)
        if row is None:
            continue
        window = promoter.codes[promoter.flank : promoter.codes.size - promoter.flank]
        place = (promoter.chrom, promoter.start, promoter.end, promoter.strand)
        if window.size > length or place != places[row]:
            raise BioattnError(
                f"{promoters}: promoter {promoter.gene_id!r} is not the window that the model saw; give the FASTA "
                "that attention was exported from"
            )
        codes[row, length - window.size :] = window
        missing.discard(promoter.gene_id)
    if missing:
        example = next(gene for gene in samples.index if gene in missing)
        raise BioattnError(
            f"{promoters}: lacks {len(missing):,} of {len(rows):,} promoters (such as {example!r}); give the "
            "FASTA that attention was exported from"
        )
    if sha256_of(promoters) != attention.input_sha256:
        LOGGER.warning(
            f"{promoters}: is not the file that {attention.path.name} was made from (SHA-256 differs), though "
            "genes and places agree"
        )
    return codes


def _numbers(samples: pd.DataFrame, genes: Sequence[str] | None) -> NDArray[np.int64]:
    if genes is None:
        return np.arange(len(samples))
    return np.sort(samples.index.get_indexer(pd.Index(genes)))
