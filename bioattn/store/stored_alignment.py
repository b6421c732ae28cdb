"""One alignment of an attention file, read back to be written into another one."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.io.hdf5_input import strings, text_attribute
from bioattn.store.alignment_attention_reader import row_names, seen_columns
from bioattn.store.alignment_attention_writer import AlignmentAttentionFile
from bioattn.store.alignment_schema import (
    KEY_INDEX,
    AlignmentReduction,
    AlignmentSample,
    AlignmentSiteLayout,
    sample_group,
    slabs,
)
from bioattn.store.choices import WeightType
from bioattn.store.schema import DIGEST, WEIGHTS


class StoredSlab(NamedTuple):
    """Some megabytes of one array."""

    layout: AlignmentSiteLayout
    quantity: str
    place: tuple[int | slice, ...]
    """Index of the values in the array."""
    values: NDArray[np.generic]
    digest: str | None
    """Of the whole array, as the file has it."""


def stored_sample(file: h5py.File, number: int, *, with_names: bool = True) -> AlignmentSample:
    """The sample with this number as the file names it; with_names: of its rows, too."""
    group = file["samples"]
    columns = seen_columns(file, number)
    width = int(group["alignment_columns"][number])
    return AlignmentSample(
        id=strings(group["id"], slice(number, number + 1))[0],
        query=strings(group["query"], slice(number, number + 1))[0],
        rows=int(group["rows"][number]),
        extra_rows=int(group["extra_rows"][number]),
        input_sha256=strings(group["input_sha256"], slice(number, number + 1))[0],
        # Those of thousands of alignments take room, and mostly they are all.
        columns=None if len(columns) == width else tuple(columns.tolist()),
        alignment_columns=width,
        row_names=row_names(file, number, extra=False) if with_names else None,
        extra_row_names=row_names(file, number, extra=True) if with_names else None,
    )


def stored_layout(file: h5py.File, site: str, number: int) -> AlignmentSiteLayout:
    """How the arrays of a sample are stored at a site."""
    group = file[f"sites/{site}"]
    arrays = group[sample_group(number)]
    weights = arrays[WEIGHTS]
    dims = tuple(str(dim.label) for dim in weights.dims)
    # What was asked for need not be what was done: a site without rows has none to take a mean over.
    reduce = AlignmentReduction(text_attribute(group, "reduce") or "")
    if (KEY_INDEX in arrays) != (reduce is AlignmentReduction.TOP_K):
        raise ValueError(f"{arrays.name} holds other arrays than {reduce} gives")
    return AlignmentSiteLayout(
        name=site,
        dims=dims,
        sizes=tuple(int(size) for size in weights.shape),
        heads=tuple(int(head) for head in group.attrs["heads"]),
        keys=text_attribute(group, "keys") or "",
        extra_rows=bool(group.attrs["extra_rows"]),
        reduce=reduce,
        top_k=int(group.attrs.get("top_k", 0)),
        dtype=WeightType(str(weights.dtype)),
    )


def stored_slabs(
    file: h5py.File, number: int, layouts: Iterable[AlignmentSiteLayout]
) -> Iterator[StoredSlab]:
    """All arrays of a sample in C order, a few megabytes at a time."""
    for layout in layouts:
        for quantity, kind in layout.quantities.items():
            dataset = file[f"sites/{layout.name}/{sample_group(number)}/{quantity}"]
            for index in slabs(layout.sizes, kind.itemsize):
                yield StoredSlab(layout, quantity, index, dataset[index], text_attribute(dataset, DIGEST))


def copy_slabs(slabs_of_sample: Iterable[StoredSlab], file: AlignmentAttentionFile, number: int) -> bool:
    """Write the arrays of one sample as the one with this number; False when they are not what was written.

    The bytes of the file follow from the order of the slabs, which `stored_slabs` gives.
    """
    for layout, of_site in groupby(slabs_of_sample, key=lambda slab: slab.layout):
        stream = file.site(layout, number)
        stored: dict[str, Any] = {}
        for slab in of_site:
            stream.copy(slab.quantity, slab.place, slab.values)
            stored[slab.quantity] = slab.digest
        if stream.finish_copy() != stored:
            return False
    return True
