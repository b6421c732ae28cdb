"""Reading `distogram.h5`, the predicted distances of pairs of columns, and their entropy.

`docs/formats/evoformer-output.md` is the contract.
"""

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import open_hdf5, other_format, text_attribute

DISTOGRAM_FORMAT = "bioattn-distogram"
FORMAT_VERSION = 1
DISTOGRAM = "distogram.h5"
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
    entropy: NDArray[np.float64] | None = None
    """(R, R) bits of the distribution over N bins: 0 = sure; None where it was not asked for."""

    @property
    def num_bins(self) -> int:
        """Number of bins, N."""
        return len(self.bin_edges) + 1


def read_distances(path: Path, *, with_entropy: bool = False) -> Distances:
    """Read `distogram.h5` of `run evoformer`, or of the folder that holds it.

    with_entropy: takes reading the whole distribution. Raises: FormatError when it is no such file, or damaged.
    """
    if path.is_dir():
        path = path / DISTOGRAM
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
        columns = file["column_i"][()].astype(np.int64) - 1
        return Distances(
            name=text_attribute(file, "id") or "",
            letters=text_attribute(file, "sequence") or "",
            columns=columns,
            bin_edges=file["bin_edge"][()].astype(np.float64),
            contact_probability=file["contact_probability"][()].astype(np.float64),
            expected_distance=file["expected_distance"][()].astype(np.float64),
            entropy=_entropy(file["probability"]) if with_entropy else None,
        )


def _entropy(probability: h5py.Dataset) -> NDArray[np.float64]:
    """(R, R) bits of the distributions (R, R, bins), some rows at a time."""
    entropy = np.empty(probability.shape[:2])
    for start in range(0, len(entropy), _ROWS_AT_ONCE):
        part = probability[start : start + _ROWS_AT_ONCE].astype(np.float64)
        logs = np.log2(part, out=np.zeros_like(part), where=part > 0)
        entropy[start : start + _ROWS_AT_ONCE] = -(part * logs).sum(axis=-1)
    return entropy
