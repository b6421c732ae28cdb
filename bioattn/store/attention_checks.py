"""Checks that all attention files share: dimension scales, digests, sums of rows."""

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.io.hdf5_input import strings, text_attribute
from bioattn.store.findings import Finding, error, warning
from bioattn.store.schema import DIGEST, Digest

WEIGHT_TYPES = (np.dtype(np.float32), np.dtype(np.float16))


def dimensions(
    where: str, group: h5py.Group, dataset: h5py.Dataset, dims: tuple[str, ...]
) -> Iterator[Finding]:
    """Every axis has a label and a scale of its name, in the same group, of its length."""
    if dataset.ndim != len(dims):
        yield error(where, f"has {dataset.ndim} axes, {dims} are needed")
        return
    for axis, name in enumerate(dims):
        if not isinstance(group.get(name), h5py.Dataset):
            yield error(f"{group.name}/{name}", "the dimension scale is missing")
            continue
        # Compared as objects: HDF5 searches the whole file for the name of a scale that it gets by reference.
        if dataset.dims[axis].label != name or group[name] not in dataset.dims[axis].values():
            yield error(where, f"axis {axis} is not labelled {name!r} with the scale {group.name}/{name}")
        elif len(group[name]) != dataset.shape[axis]:
            yield error(f"{group.name}/{name}", f"has {len(group[name])} values for {dataset.shape[axis]}")


def names(where: str, dataset: Any, wanted: list[str]) -> Iterator[Finding]:
    """Text that must be that of another place in the file."""
    if not isinstance(dataset, h5py.Dataset):
        return  # reported with the dimensions
    found = strings(dataset)
    yield from digest_of(dataset, found)
    if found != wanted:
        yield error(where, "differs from the names elsewhere in the file")


def digest_of(dataset: h5py.Dataset, values: Any) -> Iterator[Finding]:
    """Whether values that were read are those that were written."""
    digest = Digest()
    digest.add(values)
    stored = text_attribute(dataset, DIGEST)
    if stored is None:
        yield warning(dataset.name, f"has no {DIGEST}, so damage to it cannot be seen")
    elif stored != digest.hexdigest():
        yield error(dataset.name, f"the values are not those that were written ({DIGEST} differs)")


def slab_problem(slab: NDArray[np.floating], bounds: tuple[float, float] | None) -> tuple[int, str] | None:
    """The first slice along the first axis whose values are impossible, and why.

    bounds: between which sums along the last axis must lie; None = anywhere.
    """
    by_sample = slab.reshape(len(slab), -1)
    finite = np.isfinite(by_sample).all(axis=1)
    if not finite.all():
        return int(np.argmin(finite)), "holds NaN or infinities"
    negative = (by_sample < 0).any(axis=1)
    if negative.any():
        return int(np.argmax(negative)), "holds negative values"
    if bounds is None:
        return None
    sums = slab.sum(axis=-1, dtype=np.float32).reshape(len(slab), -1)
    wrong = (sums < bounds[0]) | (sums > bounds[1])
    if not wrong.any():
        return None
    sample = int(np.argmax(wrong.any(axis=1)))
    worst = float(sums[sample][np.argmax(wrong[sample])])
    return sample, f"a row of weights sums to {worst:.6g}"
