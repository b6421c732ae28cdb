"""Attribution: a file of results with one group, `attribution` (`docs/formats/attribution.md`)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.io.hdf5_input import damage_named, open_hdf5, strings, text_attribute
from bioattn.store import schema
from bioattn.store.choices import Method
from bioattn.store.reader import Choice, ResultFile, read_selection
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS

ATTRIBUTION_PARTS_FORMAT = "bioattn-attribution-parts"
ATTRIBUTION, VALUES, SEQUENCE, GAP = "attribution", "values", "sequence", "completeness_gap"
BASES = ("A", "C", "G", "T")


def _group_layout(method: Method, treatments: Sequence[str], window_length: int) -> schema.GroupLayout:
    """The values, the sequences they are of and, where the method promises a sum, how far the values are from
    it."""
    axes = (
        Axis("treatment", coordinates=tuple(treatments)),
        Axis(schema.POSITION, size=window_length),
        Axis("base", coordinates=BASES),
    )
    long_name = "what each base would add to the prediction, mean over bases 0"
    arrays = [
        schema.Array(VALUES, "float32", ("treatment", schema.POSITION, "base"), long_name),
        schema.Array(SEQUENCE, "uint8", (schema.POSITION,), "0 A, 1 C, 2 G, 3 T, 4 N"),
    ]
    if method is Method.INTEGRATED_GRADIENTS:
        arrays.append(
            schema.Array(GAP, "float32", ("treatment",), "f(promoter) - f(baseline) - sum of contributions")
        )
    return schema.GroupLayout(path=ATTRIBUTION, axes=axes, arrays=tuple(arrays))


def attribution_file_layout(
    method: Method,
    settings: str,
    treatments: Sequence[str],
    *,
    model_sha256: str,
    attributes: Mapping[str, schema.Attribute],
) -> schema.FileLayout:
    """The layout of an attribution file.

    settings: what else decides the values, such as `steps=50 baseline=uniform`; attributes: of the windows
    (`bioattn.store.windows.window_attributes`).
    """
    window_length = attributes["window_length"]
    assert isinstance(window_length, int)
    return schema.FileLayout(
        format=schema.ATTRIBUTION_FORMAT,
        inputs=PROMOTERS,
        model_sha256=model_sha256,
        attributes={**attributes, "method": str(method), "method_settings": settings},
        columns=PROMOTER_COLUMNS,
        groups=(_group_layout(method, treatments, window_length), schema.predictions_layout(treatments)),
    )


class AttributionFile(ResultFile):
    """An open attribution file; made by `open_attribution`, usable inside its `with` only."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        super().__init__(path, file, schema.ATTRIBUTION_FORMAT)
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
        chosen = [self._genes(gene), self._treatments(treatment), slice(None), slice(None)]
        with damage_named(self.path):
            values: NDArray[np.float32] = read_selection(self._file[f"{ATTRIBUTION}/{VALUES}"], chosen)
        return values

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
            codes: NDArray[np.uint8] = read_selection(
                self._file[f"{ATTRIBUTION}/{SEQUENCE}"], [self._genes(gene), slice(None)]
            )
        return codes

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


@contextmanager
def open_attribution(path: Path | str) -> Iterator[AttributionFile]:
    """Open an attribution file of format 1.x or 2.x for reading.

    Raises: BioattnError when it cannot be opened; FormatError when it is no attribution file, of a newer major
    version, damaged, or not self-contained.
    """
    path = Path(path)
    with open_hdf5(path) as file:
        yield AttributionFile(path, file)
