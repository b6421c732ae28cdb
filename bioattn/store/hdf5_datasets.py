"""The datasets our HDF5 files are made of: dimension scales with digests, text."""

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.store.schema import DIGEST, Digest


def write_scale(group: h5py.Group, name: str, values: NDArray[np.generic] | list[str]) -> h5py.Dataset:
    """A small dimension scale, written at once, with its digest."""
    return _write(group, name, values, scale=True)


def write_digested(group: h5py.Group, name: str, values: NDArray[np.generic] | list[str]) -> h5py.Dataset:
    """A small dataset, numbers or text, written at once, with its digest."""
    return _write(group, name, values, scale=False)


def _write(
    group: h5py.Group, name: str, values: NDArray[np.generic] | list[str], *, scale: bool
) -> h5py.Dataset:
    if isinstance(values, list):
        dataset = group.create_dataset(name, data=text_array(values), dtype=h5py.string_dtype())
    else:
        dataset = group.create_dataset(name, data=values)
    if scale:
        dataset.make_scale(name)
    digest = Digest()
    digest.add(values)
    dataset.attrs[DIGEST] = digest.hexdigest()
    return dataset


def attach_scale(dataset: h5py.Dataset, axis: int, label: str, scale: h5py.Dataset) -> None:
    """Label an axis and attach its dimension scale."""
    dataset.dims[axis].label = label
    dataset.dims[axis].attach_scale(scale)


def text_array(texts: list[str]) -> NDArray[Any]:
    """An object array of exactly one axis, whatever the texts look like."""
    return np.array(texts, dtype=object)
