"""Reading what is particular to attention files over alignments: each sample has its own arrays."""

from typing import Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.io.hdf5_input import strings, text_attribute
from bioattn.store.alignment_schema import (
    ALIGNMENTS,
    COLUMNS,
    EXTRA_ROW_NAMES,
    INPUTS,
    ROW_NAMES,
    SAMPLE_FIELDS,
    sample_group,
)
from bioattn.store.schema import WEIGHTS


def is_over_alignments(file: h5py.File) -> bool:
    """Whether the inputs of an attention file are alignments and not promoters."""
    return text_attribute(file, INPUTS) == ALIGNMENTS


def alignment_samples(file: h5py.File) -> pd.DataFrame:
    """Length, alignment_columns, rows, extra_rows, query and input_sha256 by sample id, in file order."""
    group = file["samples"]
    return pd.DataFrame(
        {
            name: strings(group[name]) if name in ("query", "input_sha256") else group[name][:]
            for name in SAMPLE_FIELDS[1:]
        },
        index=pd.Index(strings(group["id"]), name="id"),
    )


def seen_columns(file: h5py.File, number: int) -> NDArray[np.int64]:
    """(R,) match columns of the alignment with this number that the model saw, from 0."""
    columns: NDArray[np.int64] = file[f"samples/{COLUMNS}/{sample_group(number)}"][:].astype(np.int64)
    return columns


def row_names(file: h5py.File, number: int, *, extra: bool) -> tuple[str, ...] | None:
    """Names of the rows of the clustered or the extra MSA of the sample with this number; None = not known."""
    where = f"samples/{EXTRA_ROW_NAMES if extra else ROW_NAMES}/{sample_group(number)}"
    return tuple(strings(file[where])) if where in file else None


def first_array(group: h5py.Group) -> h5py.Dataset:
    """The weights of the first sample at a site; axes and dtype are those of all."""
    return group[f"{sample_group(0)}/{WEIGHTS}"]


def array_of(group: h5py.Group, number: int, quantity: str) -> h5py.Dataset:
    """One quantity of the sample with this number at a site."""
    return group[f"{sample_group(number)}/{quantity}"]


def read_head(dataset: h5py.Dataset, dims: tuple[str, ...], head: int | None) -> NDArray[Any]:
    """The array, or that of the head at this index alone, its axis dropped."""
    if head is None:
        return np.asarray(dataset[()])
    return np.asarray(dataset[tuple(head if dim == "head" else slice(None) for dim in dims)])
