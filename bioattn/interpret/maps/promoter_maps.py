"""One map over the bases of every promoter and treatment, whether of attention or of attribution.

Attention is spread from bins over bases (Gaussian) and scaled so that 1 is what each base has where a model looks
everywhere alike; attribution is the contribution of each base, in response units, with its sign, as are the
contributions of attended bins. Maps are read some promoters of one treatment at a time.

Shapes: G promoters, B promoters of a block, L bases of the window.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.io.files import sha256_of
from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.attribution import AttributionFile, open_attribution
from bioattn.store.reader import AttentionFile, open_attention
from bioattn.store.schema import ATTRIBUTION_FORMAT

LOGGER = logging.getLogger("bioattn")
ROWS_AT_ONCE = 1024
ATTENTION, ATTRIBUTION = "attention", "attribution"
SIGNS = {"raising": 1, "lowering": -1}
"""Contributions of attended bins are searched twice: where they raise the response, and where they lower it."""
ATTRIBUTED_BASES = 15
"""How wide a stretch is cut out around a peak of attribution, which points at single bases."""


def open_maps(path: Path) -> AbstractContextManager[AttentionFile | AttributionFile]:
    """Open a file of attention or of attribution. Raises: FormatError when it is neither."""
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
    return open_attribution(path) if kind == ATTRIBUTION_FORMAT else open_attention(path)


class PromoterMaps(ABC):
    """Maps of one file; chosen promoters only."""

    kind: str
    """`attention`, `attribution`, `raising` or `lowering`."""
    signed: bool
    """Whether values are contributions to the response."""
    path: Path
    treatments: list[str]
    samples: pd.DataFrame
    """Place of each promoter by gene id, as in the file."""
    codes: NDArray[np.uint8]
    """(G, L)."""
    reach: int
    """Bases around a peak that may be what it points at."""

    def __init__(self, chosen: NDArray[np.int64]) -> None:
        self._chosen = chosen
        self._reference: NDArray[np.float32] | None = None

    @abstractmethod
    def _compact(self, samples: NDArray[np.int64], treatment: str) -> NDArray[np.float64]:
        """What the file holds of promoters by sample number, reduced to one row of bins or bases each."""

    @abstractmethod
    def _spread(self, compact: NDArray[np.floating]) -> NDArray[np.float64]:
        """From that to bases, (B, L)."""

    def heights(self, rows: slice, treatment: str) -> NDArray[np.float64]:
        """The map in which peaks are sought, less the reference where one is held: not negative, (B, L)."""
        values = self.difference(rows, treatment) if self.reference_held else self.read(rows, treatment)
        return np.abs(values) if self.kind == ATTRIBUTION else np.maximum(SIGNS.get(self.kind, 1) * values, 0)

    @property
    def length(self) -> int:
        return int(self.codes.shape[1])

    @property
    def reference_held(self) -> bool:
        """Whether `hold_reference` was called."""
        return self._reference is not None

    def hold_reference(self, name: str | None) -> None:
        """Read the maps of a treatment, or with None (or `mean`, unless one is called so) their mean over all, and
        keep them for `difference`."""
        names = self.treatments if name is None or name not in self.treatments else [name]
        blocks = []
        for rows in self.blocks():
            total = sum(self._compact(self._chosen[rows], each) for each in names)
            blocks.append((np.asarray(total) / len(names)).astype(np.float32))
        self._reference = np.concatenate(blocks)

    def blocks(self) -> Iterator[slice]:
        for first in range(0, len(self._chosen), ROWS_AT_ONCE):
            yield slice(first, min(first + ROWS_AT_ONCE, len(self._chosen)))

    def read(self, rows: slice, treatment: str) -> NDArray[np.float64]:
        """The map of some promoters, (B, L)."""
        return self._spread(self._compact(self._chosen[rows], treatment))

    def reference(self, rows: slice) -> NDArray[np.float64]:
        """The map of the reference, (B, L)."""
        assert self._reference is not None, "hold_reference first"
        return self._spread(self._reference[rows])

    def difference(self, rows: slice, treatment: str) -> NDArray[np.float64]:
        """The map less that of the reference, (B, L)."""
        assert self._reference is not None, "hold_reference first"
        return self._spread(self._compact(self._chosen[rows], treatment) - self._reference[rows])


class AttentionMaps(PromoterMaps):
    """Attention, averaged over sites and heads, or its contributions, added over heads."""

    def __init__(
        self,
        attention: AttentionFile,
        promoters: Path,
        *,
        genes: Sequence[str] | None,
        sites: Sequence[str] = ("*",),
        heads: tuple[int, ...] | None = None,
        kind: str = ATTENTION,
    ) -> None:
        """Maps of `genes` (None = all), whose bases are those of the FASTA `promoters`; kind: weights, or a key of
        `SIGNS`.

        Raises: BioattnError as `position_maps`, or when the FASTA lacks a gene or a base.
        """
        self.kind, self.signed = kind, kind in SIGNS
        self._reader = position_maps(attention, sites, heads, contributions=self.signed)
        super().__init__(_numbers(attention.samples, genes))
        self.path = attention.path
        self.treatments = attention.treatments
        self.samples = attention.samples.iloc[self._chosen]
        self._edges = self._reader.key_edges
        fields = [info.receptive_field or 0 for info in self._reader.sites]
        self.reach = max(*fields, int(np.diff(self._edges).max()))
        self.codes = codes_of_genes(promoters, attention, self.samples)

    def _compact(self, samples: NDArray[np.int64], treatment: str) -> NDArray[np.float64]:
        return self._reader.read(samples, treatment)

    def _spread(self, compact: NDArray[np.floating]) -> NDArray[np.float64]:
        spread = upsample(compact, self._edges, self.length, Upsampling.GAUSSIAN)
        return spread if self.signed else self.length * spread


class AttributionMaps(PromoterMaps):
    """Contributions of bases."""

    kind = ATTRIBUTION
    signed = True
    reach = ATTRIBUTED_BASES

    def __init__(self, attribution: AttributionFile, *, genes: Sequence[str] | None) -> None:
        super().__init__(_numbers(attribution.samples, genes))
        self.path = attribution.path
        self.treatments = list(attribution.treatments)
        self.samples = attribution.samples.iloc[self._chosen]
        self._file = attribution
        self.codes = np.concatenate([self._of_samples(self._chosen[rows], None) for rows in self.blocks()])

    def _compact(self, samples: NDArray[np.int64], treatment: str) -> NDArray[np.float64]:
        return self._of_samples(samples, treatment).astype(np.float64)

    def _spread(self, compact: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.asarray(compact, dtype=np.float64)

    def _of_samples(self, samples: NDArray[np.int64], treatment: str | None) -> NDArray[Any]:
        """Contributions, or with no treatment the sequences, of ascending sample numbers."""
        block = slice(int(samples[0]), int(samples[-1]) + 1)
        stored = (
            self._file.sequences(gene=block)
            if treatment is None
            else self._file.contributions(gene=block, treatment=treatment)
        )
        return np.asarray(np.asarray(stored)[samples - samples[0]])


def codes_of_genes(promoters: Path, attention: AttentionFile, samples: pd.DataFrame) -> NDArray[np.uint8]:
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
    numbers = {gene: number for number, gene in enumerate(samples.index)}
    return np.array(sorted(numbers[gene] for gene in genes), dtype=np.int64)
