"""Predicted distances of a distogram file, and their entropy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import open_hdf5, other_format, text_attribute
from bioattn.io.seal import check_seal
from bioattn.store.distogram_file import DISTOGRAM_FORMAT, FORMAT_VERSION

_ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Distances between the R columns that the model saw."""

    name: str
    letters: str
    """One letter per match column of the alignment, `-` for a gap."""
    columns: NDArray[np.int64]
    """(R,) match columns, from 0."""
    bin_edges: NDArray[np.float64]
    """(N - 1,) ångström between bins."""
    contact_probability: NDArray[np.float64]
    """(R, R)."""
    expected_distance: NDArray[np.float64]
    """(R, R) ångström; the open bins at both ends count as wide as the others."""
    entropy: NDArray[np.float64]
    """(R, R) bits of the distribution over N bins: 0 = sure."""

    @property
    def num_bins(self) -> int:
        """Number of bins, N."""
        return len(self.bin_edges) + 1


def read_distances(path: Path) -> Distances:
    """Read `distogram.h5` of `run evoformer`. Raises: FormatError when the file is not a distogram, or damaged."""
    if path.is_dir():
        path = path / "distogram.h5"
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
        if kind != DISTOGRAM_FORMAT:
            advice = "`bioattn run evoformer` writes distogram.h5"
            raise other_format(path, "distogram", kind, DISTOGRAM_FORMAT, advice)
        if int(file.attrs.get("format_version", 0)) != FORMAT_VERSION:
            raise FormatError(
                f"{path}: has format version {file.attrs.get('format_version')}, this bioattn reads "
                f"{FORMAT_VERSION}"
            )
    check_seal(path)
    with open_hdf5(path) as file:
        columns = file["column_i"][()].astype(np.int64) - 1
        size = len(columns)
        entropy = np.empty((size, size))
        for start in range(0, size, _ROWS_AT_ONCE):
            part = file["probability"][start : start + _ROWS_AT_ONCE].astype(np.float64)
            logs = np.log2(part, out=np.zeros_like(part), where=part > 0)
            entropy[start : start + _ROWS_AT_ONCE] = -(part * logs).sum(axis=-1)
        return Distances(
            name=text_attribute(file, "id") or "",
            letters=text_attribute(file, "sequence") or "",
            columns=columns,
            bin_edges=file["bin_edge"][()].astype(np.float64),
            contact_probability=file["contact_probability"][()].astype(np.float64),
            expected_distance=file["expected_distance"][()].astype(np.float64),
            entropy=entropy,
        )
