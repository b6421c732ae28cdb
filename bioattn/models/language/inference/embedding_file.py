"""Embeddings of sequences in HDF5 (`docs/formats/embeddings.md`)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.io.dataset_file import DatasetKind
from bioattn.io.hdf5_output import hdf5_file, put_array, put_text

EMBEDDINGS = DatasetKind(
    name="embeddings file",
    format="bioattn-embeddings",
    version=1,
    command="bioattn run language --embeddings",
)


def write_embeddings(
    path: Path, ids: list[str], values: NDArray[np.float32], model_sha256: str, pool: str
) -> None:
    """Write the embeddings (sequences, channels) of `ids`."""
    with hdf5_file(path) as file:
        put_text(file, "id", ids)
        put_array(file, "values", values.astype("<f4"))
        EMBEDDINGS.write_attributes(file, model_sha256=model_sha256, pool=str(pool))


def read_embeddings(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Ids and embeddings (sequences, channels). Raises: FormatError when the file is none or is damaged."""
    with EMBEDDINGS.open(path) as arrays:
        return arrays.text("id"), arrays.get("values", "f4")
