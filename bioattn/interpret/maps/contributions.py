"""What each base adds to the responses of a promoter: attribution, or what attended bins contribute.

Shape suffixes: T treatments, L bases of the window.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names
from bioattn.errors import BioattnError
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.store.attribution import AttributionFile, open_attribution
from bioattn.store.reader import AttentionFile, ResultFile


class Contributions(ABC):
    """Contributions to the responses of single promoters, in their units (of a binary model log-odds)."""

    codes_GL: NDArray[np.uint8] | None = None
    """Sequences of all promoters of the file, in its order; None where it holds none."""
    of_single_bases = False
    """Whether every base has a contribution of its own, not a share of its bin's."""

    def __init__(self, file: ResultFile, treatments: list[str], method: str) -> None:
        self.path = file.path
        self.genes = {str(gene): row for row, gene in enumerate(file.samples.index)}
        """Row of each promoter."""
        self.treatments = treatments
        self.method = method
        """Such as `in-silico mutagenesis`."""

    @abstractmethod
    def _read(self, gene: str, treatments: Sequence[str]) -> NDArray[np.float64]:
        """(T, L)."""

    def of(self, gene: str, treatments: Sequence[str], against: str | None = None) -> NDArray[np.float64]:
        """(T, L) of a promoter. against: as `read_treatment_maps` has it, what is subtracted.

        Raises: BioattnError for a promoter or treatment that the file does not hold.
        """
        require_names("--gene", [gene], self.genes, self.path, "gene")
        require_names("--treatment", treatments, self.treatments, self.path)
        values_TL = self._read(gene, treatments)
        if against is not None:
            all_of_them = against == MEAN and MEAN not in self.treatments
            values_TL = values_TL - self._read(gene, self.treatments if all_of_them else [against]).mean(
                axis=0
            )
        return values_TL


class _OfAttribution(Contributions):
    of_single_bases = True

    def __init__(self, file: AttributionFile) -> None:
        method = file.method.replace("-", " ").replace("ism", "in-silico mutagenesis")
        super().__init__(file, list(file.treatments), method)
        self._file = file
        self.codes_GL = file.sequences()

    def _read(self, gene: str, treatments: Sequence[str]) -> NDArray[np.float64]:
        return self._file.contributions(gene=gene, treatment=list(treatments)).astype(np.float64)


class _OfAttention(Contributions):
    def __init__(
        self,
        file: AttentionFile,
        sites: Sequence[str] | None,
        heads: Sequence[int] | None,
        upsampling: Upsampling,
    ) -> None:
        super().__init__(file, file.treatments, "attention × value")
        self._maps = position_maps(file, sites, heads, contributions=True)
        self._upsampling = upsampling

    def _read(self, gene: str, treatments: Sequence[str]) -> NDArray[np.float64]:
        row = self.genes[gene]
        block_TK = self._maps.block(slice(row, row + 1))[
            0, [self.treatments.index(name) for name in treatments]
        ]
        length, field = self._maps.attention.window_length, self._maps.receptive_field
        return upsample(block_TK, self._maps.key_edges, length, self._upsampling, field)


@contextmanager
def open_contributions(
    attention: AttentionFile,
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
        contribute = any(info.has_contributions for info in attention.sites.values())
        yield _OfAttention(attention, sites, heads, upsampling) if contribute else None
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
        yield _OfAttribution(file)
