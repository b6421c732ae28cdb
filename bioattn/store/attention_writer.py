"""Writing one attention HDF5 file, samples in order, a block at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.formats.hdf5_output import hdf5_output
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.hdf5_datasets import attach_scale, text_array, write_scale
from bioattn.store.schema import (
    DIGEST,
    FORMAT,
    KEY_EDGES,
    PREDICTIONS,
    PROMOTER_VERSION,
    QUERY_EDGES,
    SAMPLE_FIELDS,
    Digest,
    Reduction,
    Samples,
    SiteLayout,
    bin_centres,
)

SiteArrays = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""site name → quantity (`weights`, `value_weighted`) → array with the sample axis first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionHeader:
    """What the file says about where it comes from."""

    model_sha256: str
    """Of the model's weights file."""
    input_sha256: str
    """Of the sequence file the model was run on."""
    window_length: int
    """Positions of the model's window; shorter samples lie at its right end."""
    task: str
    """`regression` or `binary`: the unit of `/predictions/values`."""


class AttentionWriter:
    """Appends blocks of samples to a new file; use `attention_writer`, which checks that it was filled."""

    def __init__(
        self,
        file: h5py.File,
        header: AttentionHeader,
        layouts: Sequence[SiteLayout],
        treatments: Sequence[str],
        num_samples: int,
        *,
        chunked: bool,
        check: Callable[[], None],
    ) -> None:
        self._file = file
        self._check = check
        self._num_samples = num_samples
        self._written = 0
        self._chunked = chunked
        self._digests: dict[str, Digest] = {}
        self._layouts = tuple(layouts)
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = PROMOTER_VERSION
        file.attrs["generated_by"] = f"bioattn {__version__}"
        file.attrs["model_sha256"] = header.model_sha256
        file.attrs["input_sha256"] = header.input_sha256
        file.attrs["window_length"] = np.int64(header.window_length)
        file.attrs["task"] = header.task
        self._create_samples()
        self._create_predictions(treatments)
        for layout in self._layouts:
            self._create_site(layout, treatments)

    def append(self, samples: Samples, arrays: SiteArrays, predictions: NDArray[np.float32]) -> None:
        """Write the next samples: their places, every site's arrays and the predictions (n, treatments)."""
        rows = slice(self._written, self._written + len(samples.ids))
        for name, values in zip(SAMPLE_FIELDS, samples, strict=True):
            self._put(f"/samples/{name}", rows, values)
        self._put(f"/{PREDICTIONS}/values", rows, predictions)
        self._put(f"/{PREDICTIONS}/sample", rows, samples.ids)
        for layout in self._layouts:
            self._put(f"/sites/{layout.name}/sample", rows, samples.ids)
            for quantity in layout.quantities:
                self._put(f"/sites/{layout.name}/{quantity}", rows, arrays[layout.name][quantity])
        self._written = rows.stop
        self._check()

    def finish(self) -> None:
        """Write the digests. Raises: RuntimeError when samples are missing (a bug of the caller)."""
        if self._written != self._num_samples:
            raise RuntimeError(f"{self._written} of {self._num_samples} samples were written")
        for where, digest in self._digests.items():
            self._file[where].attrs[DIGEST] = digest.hexdigest()
        self._file.attrs[CONTENT_DIGEST] = content_digest(self._file)

    def _create_samples(self) -> None:
        group = self._file.create_group("samples")
        scale = self._stream(group, "id", "sample id")
        for name in SAMPLE_FIELDS[1:]:
            kind = np.dtype(np.int64) if name in ("start", "end") else None
            dataset = self._stream(group, name, None, kind)
            attach_scale(dataset, 0, "id", scale)
        group["start"].attrs["comment"] = "0-based first base of the window along the chromosome; -1 unknown"
        group["end"].attrs["comment"] = "base after the last one of the window; -1 unknown"

    def _create_predictions(self, treatments: Sequence[str]) -> None:
        group = self._file.create_group(PREDICTIONS)
        values = self._array(
            group, "values", (self._num_samples, len(treatments)), np.dtype(np.float32), None
        )
        attach_scale(values, 0, "sample", self._stream(group, "sample", "gene id"))
        attach_scale(values, 1, "treatment", write_scale(group, "treatment", list(treatments)))

    def _create_site(self, layout: SiteLayout, treatments: Sequence[str]) -> None:
        group = self._file.create_group(f"sites/{layout.name}")
        group.attrs["reduce"] = str(layout.reduce)
        group.attrs["heads"] = np.asarray(layout.heads, dtype=np.int32)
        group.attrs["sink"] = np.int8(layout.sink)
        if layout.receptive_field is not None:
            group.attrs["receptive_field"] = np.int64(layout.receptive_field)
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

    def _stream(
        self,
        group: h5py.Group,
        name: str,
        long_name: str | None,
        kind: np.dtype[Any] | None = None,
    ) -> h5py.Dataset:
        """A one-dimensional dataset over samples, filled block by block; text without `kind`."""
        dataset = group.create_dataset(name, shape=(self._num_samples,), dtype=kind or h5py.string_dtype())
        if long_name is not None:
            dataset.attrs["long_name"] = long_name
            dataset.make_scale(name)
        self._digests[dataset.name] = Digest()
        return dataset

    def _array(
        self,
        group: h5py.Group,
        name: str,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        chunk: tuple[int, ...] | None,
    ) -> h5py.Dataset:
        """A floating-point dataset; chunked ones carry a checksum that every reader verifies as it reads."""
        options = {"chunks": chunk, "fletcher32": True} if chunk is not None and self._chunked else {}
        dataset = group.create_dataset(name, shape=shape, dtype=kind, **options)
        self._digests[dataset.name] = Digest()
        return dataset

    def _put(self, where: str, rows: slice, values: Any) -> None:
        self._file[where][rows] = text_array(values) if isinstance(values, list) else values
        self._digests[where].add(values)


_LONG_NAMES = {
    Reduction.NONE: "attention weight",
    Reduction.MEAN_HEADS: "attention weight, mean over heads",
    Reduction.MAX_HEADS: "attention weight, maximum over heads",
}


@contextmanager
def attention_writer(
    path: Path,
    header: AttentionHeader,
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
    with hdf5_output(path) as (file, raw):
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
