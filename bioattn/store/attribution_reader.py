"""Reading attribution files: `with open_attribution(path) as attribution: attribution.contributions(gene="…")`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.io.hdf5_input import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.attribution_schema import (
    ATTRIBUTION,
    ATTRIBUTION_FORMAT,
    ATTRIBUTION_VERSION,
    GAP,
    SEQUENCE,
    VALUES,
)
from bioattn.store.result_file import ResultFile, require_format
from bioattn.store.selection import choice, read_selection

Choice = str | Sequence[str] | slice | None


class AttributionFile(ResultFile):
    """An open attribution file; made by `open_attribution`, usable inside its `with` only."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        require_attribution(path, file)
        super().__init__(path, file)
        self.method = text_attribute(file, "method") or ""
        """`ism`, `gradient-input` or `integrated-gradients`."""
        self.method_settings = text_attribute(file, "method_settings") or ""

    @cached_property
    def treatments(self) -> list[str]:
        """All treatments, in the order of the treatment axis."""
        with damage_named(self.path):
            return strings(self._file[f"{ATTRIBUTION}/treatment"])

    def values(
        self, *, gene: Choice = None, treatment: str | Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """Hypothetical contributions (gene, treatment, position, base A C G T); only what is asked for is read.

        What each base would add to the prediction, in response units or log-odds; over the four bases they sum to
        0, where the promoter has N all are 0. gene, treatment: one name (its axis is dropped), several (in that
        order), or None for all; gene can also be a slice of sample numbers.

        Raises: BioattnError for a gene or treatment that the file does not hold; FormatError when it is damaged.
        """
        numbers = {name: number for number, name in enumerate(self.treatments)}
        chosen = choice(treatment, numbers, f"{self.path}: treatment")
        with damage_named(self.path):
            found: NDArray[np.float32] = read_selection(
                self._file[f"{ATTRIBUTION}/{VALUES}"],
                [self._genes(gene), chosen, slice(None), slice(None)],
            )
        return found

    def contributions(
        self, *, gene: Choice = None, treatment: str | Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """The value of the base that is there, (gene, treatment, position): positive where it raises the response.

        gene, treatment and what is raised: as in `values`.
        """
        values = self.values(gene=gene, treatment=treatment)
        codes = self.sequences(gene=gene)
        if values.ndim - codes.ndim == 2:  # treatments have an axis of their own
            codes = np.expand_dims(codes, -2)
        known = np.minimum(codes, 3).astype(np.int64)[..., None]
        picked = np.take_along_axis(values, np.broadcast_to(known, (*values.shape[:-1], 1)), axis=-1)[..., 0]
        return np.where(codes > 3, np.float32(0), picked)

    def sequences(self, *, gene: Choice = None) -> NDArray[np.uint8]:
        """Codes (gene, position), 0..3 = A C G T, 4 = N; `gene` as in `values`."""
        with damage_named(self.path):
            found: NDArray[np.uint8] = read_selection(
                self._file[f"{ATTRIBUTION}/{SEQUENCE}"], [self._genes(gene), slice(None)]
            )
        return found

    def completeness_gap(self) -> pd.DataFrame | None:
        """Of integrated gradients, f(promoter) − f(baseline) − sum of all contributions, genes × treatments.

        In the units of the values; before these were centred. None for other methods.
        """
        with damage_named(self.path):
            if GAP not in self._file[ATTRIBUTION]:
                return None
            return pd.DataFrame(
                self._file[f"{ATTRIBUTION}/{GAP}"][:], index=self.samples.index, columns=self.treatments
            )

    def _genes(self, gene: Choice) -> int | list[int] | slice:
        return choice(gene, self._gene_numbers, f"{self.path}: gene")


@contextmanager
def open_attribution(path: Path | str) -> Iterator[AttributionFile]:
    """Open an attribution file for reading.

    Raises: BioattnError when it cannot be opened; FormatError when it is no attribution file, of a newer major
    version, damaged, or not self-contained.
    """
    path = Path(path)
    with open_hdf5(path) as file:
        yield AttributionFile(path, file)


def require_attribution(path: Path, file: h5py.File) -> None:
    """Raises: FormatError when the file is no attribution or its major version is newer than this reader's."""
    require_format(path, file, "attribution", ATTRIBUTION_FORMAT, ATTRIBUTION_VERSION)
