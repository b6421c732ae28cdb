"""What each base adds to the responses of a promoter: attribution, or what attended bins contribute.

Shape suffixes: T treatments, L bases of the window.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names
from bioattn.errors import BioattnError
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.maps.upsampling import upsample
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
