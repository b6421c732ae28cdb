"""Writing one attention HDF5 file, samples in order, a block at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.io.seal import structure_sealed
from bioattn.store.choices import Reduction
from bioattn.store.hdf5_datasets import attach_scale, write_scale
from bioattn.store.sample_writer import ResultHeader, SampleWriter, Values, sample_values
from bioattn.store.schema import (
    FORMAT,
    KEY_EDGES,
    PROMOTER_VERSION,
    QUERY_EDGES,
    Samples,
    SiteLayout,
    bin_centres,
)

AttentionHeader = ResultHeader
SiteArrays = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""site name → quantity (`weights`, `value_weighted`) → array with the sample axis first."""


class AttentionWriter(SampleWriter):
    """Appends blocks of samples to a new file; use `attention_writer`, which checks that it was filled."""

    def __init__(
        self,
        file: h5py.File,
        header: ResultHeader,
        layouts: Sequence[SiteLayout],
        treatments: Sequence[str],
        num_samples: int,
        *,
        chunked: bool,
        check: Callable[[], None],
    ) -> None:
        super().__init__(
            file,
            header,
            treatments,
            num_samples,
            format_name=FORMAT,
            format_version=PROMOTER_VERSION,
            chunked=chunked,
            check=check,
        )
        self._layouts = tuple(layouts)
        for layout in self._layouts:
            self._create_site(layout, treatments)

    def append(self, samples: Samples, arrays: SiteArrays, predictions: NDArray[np.float32]) -> None:
        """Write the next samples: their places, every site's arrays and the predictions (n, treatments)."""
        self._append_values(len(samples.ids), attention_values(self._layouts, samples, arrays, predictions))

    def _create_site(self, layout: SiteLayout, treatments: Sequence[str]) -> None:
        group = self._file.create_group(f"sites/{layout.name}")
        group.attrs["reduce"] = str(layout.reduce)
        group.attrs["heads"] = np.asarray(layout.heads, dtype=np.int32)
        group.attrs["sink"] = np.int8(layout.sink)
        if layout.receptive_field is not None:
            group.attrs["receptive_field"] = np.int64(layout.receptive_field)
        if layout.phases > 1:
            group.attrs["phases"] = np.int32(layout.phases)
        scales = {"sample": self._stream(group, "sample", "gene id")}
        for dim in layout.dims[1:]:
            scales[dim] = write_scale(group, dim, _coordinate(layout, dim, treatments))
        for name, edges in ((KEY_EDGES, layout.key_edges), (QUERY_EDGES, layout.query_edges)):
            if edges is not None:
                dataset = write_scale(group, name, np.asarray(edges, dtype=np.int32))
                dataset.attrs["units"] = "bases from the first base of the window, 5'->3'"
        shape = (self._num_samples, *layout.sizes)
        for quantity in layout.quantities:
            dataset = self._array(
                group, quantity, shape, np.dtype(layout.dtype), layout.chunk(self._num_samples)
            )
            for axis, dim in enumerate(layout.dims):
                attach_scale(dataset, axis, dim, scales[dim])
        group[layout.quantities[0]].attrs["long_name"] = _LONG_NAMES[layout.reduce]
        if layout.value_weighted:
            group[layout.quantities[1]].attrs["long_name"] = (
                f"{_LONG_NAMES[layout.reduce]} times norm of the value vector"
            )


_LONG_NAMES = {
    Reduction.NONE: "attention weight",
    Reduction.MEAN_HEADS: "attention weight, mean over heads",
    Reduction.MAX_HEADS: "attention weight, maximum over heads",
}


def attention_values(
    layouts: Sequence[SiteLayout], samples: Samples, arrays: SiteArrays, predictions: NDArray[np.float32]
) -> Iterator[tuple[str, Values]]:
    """What the datasets of a file get of some samples, by their paths, in the order of writing."""
    yield from sample_values(samples, predictions)
    for layout in layouts:
        yield f"/sites/{layout.name}/sample", samples.ids
        for quantity in layout.quantities:
            yield f"/sites/{layout.name}/{quantity}", arrays[layout.name][quantity]


@contextmanager
def attention_writer(
    path: Path,
    header: ResultHeader,
    layouts: Sequence[SiteLayout],
    treatments: Sequence[str],
    num_samples: int,
    *,
    chunked: bool = True,
) -> Iterator[AttentionWriter]:
    """Create `path` and give its writer; the file is complete only when the body ends without an exception.

    Raises: OSError when it cannot be written.

    `chunked=False` stores arrays in one piece, without checksums: quicker to write, for parts read back once.
    """
    with structure_sealed(path) as (file, raw):
        writer = AttentionWriter(
            file, header, layouts, treatments, num_samples, chunked=chunked, check=raw.check
        )
        yield writer
        writer.finish()


def _coordinate(layout: SiteLayout, dim: str, treatments: Sequence[str]) -> Any:
    """Values of one axis: names, head numbers, bin centres, or plain numbers where an axis has no positions."""
    if dim == "treatment":
        return list(treatments)
    if dim == "head":
        return np.asarray(layout.heads, dtype=np.int32)
    edges = layout.key_edges if dim == "key" else layout.query_edges
    if edges is not None:
        return bin_centres(edges)
    return np.arange(layout.size_of(dim), dtype=np.int32)
