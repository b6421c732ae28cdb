"""Writing a file of results: blocks of samples, and slices of one sample's own arrays, as they come.

The bytes follow from the samples alone, not from how they were cut into blocks: arrays of all samples are written
some megabytes at a time, in steps that end with whole chunks.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.attention.site import Axis
from bioattn.io.seal import structure_sealed
from bioattn.store import schema

STEP_BYTES = 1 << 21
"""Bytes of the largest array that are written at a time, unless whole chunks take more."""
TABLE_STEP = 256
"""Samples whose lines of the sample table are written at a time where no array holds all samples."""
POSITION_UNITS = "bases from the first base of the window, 5'->3'"


class SampleArrays:
    """One group's arrays of one sample, filled in C order."""

    def __init__(
        self,
        group: h5py.Group,
        layout: schema.GroupLayout,
        lengths: Mapping[str, int],
        coordinates: Mapping[str, NDArray[Any]],
        check: Callable[[], None],
    ) -> None:
        """lengths: of the sample, by column; coordinates: of its ragged axes, by their kind."""
        self._check = check
        self._next = 0
        self._rows: dict[str, _Rows] = {}
        scales = {
            axis.name: _write_axis(group, axis, schema.axis_length(axis, lengths), coordinates.get(axis.kind))
            for axis in layout.axes
        }
        self._datasets = {}
        for array in layout.arrays:
            shape = layout.shape(array, lengths)
            dataset = group.create_dataset(
                array.name,
                shape=shape,
                dtype=array.dtype,
                chunks=layout.chunk(array, None, lengths),
                fletcher32=True,
            )
            _label(dataset, array, scales, ())
            self._datasets[array.name] = dataset
            self._rows[array.name] = _Rows(dataset)
            self._length = shape[0]

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the next slices along the first axis, all arrays alike. Raises: RuntimeError for other shapes."""
        number = len(next(iter(arrays.values())))
        for name, dataset in self._datasets.items():
            if arrays[name].shape[1:] != dataset.shape[1:] or self._next + number > self._length:
                raise RuntimeError(f"{dataset.name} got {arrays[name].shape}, {dataset.shape} was expected")
        # Where chunks lie in the file follows from the order of writing: several arrays take turns slice by
        # slice, so that it does not follow from the size of tiles.
        step = number if len(arrays) == 1 else 1
        for first in range(0, number, step):
            for name, dataset in self._datasets.items():
                part = arrays[name][first : first + step]
                dataset[self._next : self._next + len(part)] = part
            self._next += min(step, number - first)
        self._check()

    def write_rows(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the next rows (rows, last axis) in C order, whole chunks at a time.

        Raises: RuntimeError when there are too many.
        """
        for name, rows in self._rows.items():
            rows.write(arrays[name])
        self._check()

    @property
    def complete(self) -> bool:
        """Whether all slices or rows were written."""
        return self._next == self._length or all(rows.complete for rows in self._rows.values())

    def put(self, name: str, index: tuple[int | slice, ...], values: NDArray[Any]) -> None:
        """Write the values at the next index (in C order) of one array."""
        self._datasets[name][index] = values
        self._check()


class _Rows:
    """The rows of an array over (head, query, last axis), or without heads, written when they fill a chunk."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._shape: tuple[int, ...] = dataset.shape
        self._chunk: tuple[int, ...] = dataset.chunks
        self._pending: list[NDArray[Any]] = []
        self._waiting = self._written = 0

    @property
    def complete(self) -> bool:
        """Whether all were written."""
        return self._written == math.prod(self._shape[:-1])

    def write(self, rows: NDArray[Any]) -> None:
        """Add (rows, last axis)."""
        while len(rows):
            wanted = self._in_chunk() - self._waiting
            if wanted <= 0:
                raise RuntimeError(f"{self._dataset.name} got more rows than {self._dataset.shape} holds")
            piece, rows = rows[:wanted], rows[wanted:]
            if len(piece) == wanted:
                self._put(np.concatenate([*self._pending, piece]) if self._pending else piece)
            else:
                self._pending.append(piece.copy())
                self._waiting += len(piece)

    def _in_chunk(self) -> int:
        """Rows from the next one on that are in the same chunk: whole maps of some heads, or some rows of one."""
        *outer, length, _ = self._shape
        *outer_part, part, _ = self._chunk
        if part < length:
            place = self._written % length
            return min(part - place % part, length - place)
        per_chunk = outer_part[-1] * length if outer else length
        total = math.prod(outer) * length
        return min(per_chunk - self._written % per_chunk, total - self._written)

    def _put(self, rows: NDArray[Any]) -> None:
        *outer, length, width = self._shape
        place, within = divmod(self._written, length)
        if not outer:
            self._dataset[within : within + len(rows)] = rows
        elif len(rows) < length:
            self._dataset[place, within : within + len(rows)] = rows
        else:
            maps = rows.reshape(-1, length, width)
            self._dataset[place : place + len(maps)] = maps
        self._written += len(rows)
        self._pending, self._waiting = [], 0


class ResultWriter:
    """A new file of results; made by `result_writer`, which checks that it was filled."""

    def __init__(
        self,
        file: h5py.File,
        layout: schema.FileLayout,
        num_samples: int,
        *,
        chunked: bool,
        check: Callable[[], None],
    ) -> None:
        """chunked: False stores arrays of all samples in one piece, without checksums. check: raises when a write
        has failed."""
        self._file = file
        self._layout = layout
        self._num_samples = num_samples
        self._chunked = chunked and num_samples > 0
        self._check = check
        self._pending: list[schema.Block] = []
        self._written = self._appended = 0
        self._last: schema.Samples | None = None
        self._open: tuple[str, SampleArrays] | None = None
        self._step = _step(layout, num_samples)
        file.attrs["format"] = layout.format
        file.attrs["format_version"] = schema.FORMAT_VERSION
        file.attrs["generated_by"] = f"bioattn {__version__}"
        file.attrs["model_sha256"] = layout.model_sha256
        file.attrs["inputs"] = layout.inputs
        _set_attributes(file, layout.attributes)
        if layout.shard is not None:
            layout.shard.write(file)
        self._create_samples()
        file.create_group("sites")
        for group in layout.groups:
            self._create_group(group)

    def append(self, block: schema.Block) -> None:
        """Write the next samples, their lists and their arrays.

        Arrays of ragged axes may be as long as the longest of the block: what lies behind a sample's end becomes
        0. A group with arrays of each sample's own may be left out, and follow with `arrays_of` or `put`.
        """
        samples = block.samples
        for place in range(len(samples)):
            self._write_lists(samples, place)
        self._last = samples.part(slice(len(samples) - 1, None)) if len(samples) else self._last
        first, self._appended = self._appended, self._appended + len(samples)
        dense = {path: arrays for path, arrays in block.arrays.items() if not self._group(path).per_sample}
        self._pending.append(schema.Block(samples, dense))
        self._write_pending(last=False)
        for path in sorted(block.arrays.keys() - dense.keys()):
            layout, of_group = self._group(path), block.arrays[path]
            for place in range(len(samples)):
                lengths = samples.lengths(place)
                arrays = self._create_sample(layout, first + place, samples.part(slice(place, place + 1)))
                arrays.write(
                    {
                        array.name: of_group[array.name][place][layout.within(array, lengths)]
                        for array in layout.arrays
                    }
                )
        self._check()

    def arrays_of(self, path: str) -> SampleArrays:
        """Begin the arrays of one group of the sample that was appended last."""
        if self._last is None:
            raise RuntimeError(f"{path}: no sample was appended")
        return self._create_sample(self._group(path), self._appended - 1, self._last)

    def put(self, slab: schema.Slab) -> None:
        """Write some values of the sample that was appended last, group by group, each in C order."""
        where = f"{slab.path}/{schema.sample_group(self._appended - 1)}"
        if self._open is None or self._open[0] != where:
            self._open = where, self.arrays_of(slab.path)
        self._open[1].put(slab.name, slab.place, slab.values)

    def finish(self) -> None:
        """Write what waits for a whole step. Raises: RuntimeError when samples are missing (a bug of the
        caller)."""
        if self._appended != self._num_samples:
            raise RuntimeError(f"{self._appended} of {self._num_samples} samples were written")
        self._write_pending(last=True)
        self._check()

    def _group(self, path: str) -> schema.GroupLayout:
        return next(group for group in self._layout.groups if group.path == path)

    def _create_samples(self) -> None:
        group = self._file.create_group("samples")
        _write_names(group, "columns", [column.name for column in self._layout.columns])
        _write_names(group, "lists", [listed.name for listed in self._layout.lists])
        scale = self._column(group, schema.ID)
        scale.make_scale(schema.ID.name)
        for column in self._layout.columns:
            _attach(self._column(group, column), 0, schema.ID.name, scale)
        for listed in self._layout.lists:
            lists = group.create_group(listed.name)
            for name in ("dtype", "kind", "lengths", "choice_of", "long_name"):
                if getattr(listed, name):
                    lists.attrs[name] = getattr(listed, name)

    def _column(self, group: h5py.Group, column: schema.Column) -> h5py.Dataset:
        kind = h5py.string_dtype() if column.dtype == schema.TEXT else column.dtype
        dataset = group.create_dataset(column.name, shape=(self._num_samples,), dtype=kind)
        for name in ("long_name", "lengths"):
            if getattr(column, name):
                dataset.attrs[name] = getattr(column, name)
        return dataset

    def _create_group(self, layout: schema.GroupLayout) -> None:
        group = self._file.create_group(layout.path)
        dims = [axis.name for axis in layout.axes]
        _write_names(group, "axes", dims if layout.per_sample else [schema.SAMPLE, *dims])
        _write_names(group, "axis_kinds", [axis.kind for axis in layout.axes])
        _write_names(group, "axis_lengths", [axis.lengths or "" for axis in layout.axes])
        _set_attributes(group, layout.attributes)
        if layout.per_sample:
            return
        scales = {schema.SAMPLE: self._column(group, schema.Column(schema.SAMPLE, schema.TEXT, "sample id"))}
        scales[schema.SAMPLE].make_scale(schema.SAMPLE)
        for axis in layout.axes:
            scales[axis.name] = _write_axis(group, axis, schema.axis_length(axis))
        for array in layout.arrays:
            shape = (self._num_samples, *layout.shape(array))
            chunks = layout.chunk(array, self._num_samples) if array.chunked and self._chunked else None
            options = {} if chunks is None else {"chunks": chunks, "fletcher32": True}
            dataset = group.create_dataset(array.name, shape=shape, dtype=array.dtype, **options)
            _label(dataset, array, scales, (schema.SAMPLE,))

    def _create_sample(self, layout: schema.GroupLayout, number: int, sample: schema.Samples) -> SampleArrays:
        """Begin one sample's own arrays; sample: that one alone."""
        group = self._file[layout.path].create_group(schema.sample_group(number))
        group.attrs[schema.SAMPLE] = sample.ids[0]
        coordinates = {
            listed.kind: np.asarray(sample.lists[listed.name][0])
            for listed in self._layout.lists
            if listed.dtype != schema.TEXT and sample.lists[listed.name][0] is not None
        }
        return SampleArrays(group, layout, sample.lengths(0), coordinates, self._check)

    def _write_lists(self, samples: schema.Samples, place: int) -> None:
        for listed in self._layout.lists:
            values = samples.lists[listed.name][place]
            if values is not None:
                group = self._file[f"samples/{listed.name}"]
                kind = h5py.string_dtype() if listed.dtype == schema.TEXT else listed.dtype
                group.create_dataset(
                    schema.sample_group(self._appended + place), data=_plain(values), dtype=kind
                )

    def _write_pending(self, *, last: bool) -> None:
        waiting = self._appended - self._written
        number = waiting if last or not self._chunked else waiting - waiting % self._step
        if number == 0:
            return
        block = schema.join_blocks(self._pending)
        step = self._step if self._chunked else number
        for first in range(0, number, step):
            self._write(block.part(slice(first, min(first + step, number))))
        self._pending = [block.part(slice(number, None))] if number < waiting else []

    def _write(self, block: schema.Block) -> None:
        """Write the next samples of the table and of the arrays of all samples."""
        rows = slice(self._written, self._written + len(block.samples))
        for name, values in block.samples.columns.items():
            self._file[f"samples/{name}"][rows] = _plain(values)
        for layout in self._layout.groups:
            if layout.per_sample:
                continue
            group = self._file[layout.path]
            group[schema.SAMPLE][rows] = _plain(block.samples.ids)
            for array in layout.arrays:
                values = block.arrays[layout.path][array.name]
                group[array.name][rows] = _padded(layout, array, values, block.samples)
        self._written = rows.stop
        self._check()


@contextmanager
def result_writer(
    path: Path, layout: schema.FileLayout, num_samples: int, *, chunked: bool = True
) -> Iterator[ResultWriter]:
    """Create `path` and give its writer; the file is complete only when the body ends without an exception.

    chunked: False stores arrays of all samples in one piece, without checksums: quicker to write, for parts that
    are read back once.

    Raises: OSError when it cannot be written.
    """
    # Without a cache whole chunks go to the file as they are written, in that order.
    cache = 0 if any(group.per_sample for group in layout.groups) else None
    with structure_sealed(path, chunk_cache_bytes=cache) as (file, raw):
        writer = ResultWriter(file, layout, num_samples, chunked=chunked, check=raw.check)
        yield writer
        writer.finish()


def _step(layout: schema.FileLayout, num_samples: int) -> int:
    """Samples written at a time: whole chunks of the largest array, since a chunk that is written in two goes is
    read again in between."""
    arrays = [
        (group, array)
        for group in layout.groups
        if not group.per_sample
        for array in group.arrays
        if array.chunked
    ]
    if not arrays:
        return TABLE_STEP
    group, array = max(arrays, key=lambda pair: _bytes(*pair))
    chunk = group.chunk(array, num_samples)[0]
    return chunk * max(1, STEP_BYTES // max(1, chunk * _bytes(group, array)))


def _bytes(group: schema.GroupLayout, array: schema.Array) -> int:
    """Bytes of one sample's values."""
    return int(np.prod(group.shape(array), dtype=np.int64)) * array.itemsize


def _padded(
    layout: schema.GroupLayout, array: schema.Array, values: NDArray[Any], samples: schema.Samples
) -> NDArray[Any]:
    """Values of some samples as the file holds them: as long as the longest of all, 0 behind each sample's end."""
    if all(layout.axis(dim).lengths is None for dim in array.dims):
        return values
    whole = np.zeros((len(values), *layout.shape(array)), dtype=array.dtype)
    for place in range(len(values)):
        own = layout.within(array, samples.lengths(place))
        whole[place][own] = values[place][own]
    return whole


def _write_axis(
    group: h5py.Group, axis: Axis, length: int, coordinates: NDArray[Any] | None = None
) -> h5py.Dataset:
    """The dimension scale of an axis, and the edges of its bins."""
    values: schema.Values
    if coordinates is not None and axis.lengths is not None:
        values = coordinates
    elif axis.edges is not None:
        values = schema.bin_centres(axis.edges)
        edges = group.create_dataset(f"{axis.name}_edges", data=np.asarray(axis.edges, dtype=np.int32))
        edges.make_scale(f"{axis.name}_edges")
        edges.attrs["units"] = POSITION_UNITS
    elif axis.coordinates is not None and (not axis.coordinates or isinstance(axis.coordinates[0], str)):
        values = [str(name) for name in axis.coordinates]
    elif axis.coordinates is not None:
        values = np.asarray(axis.coordinates, dtype=np.int32)
    else:
        values = np.arange(length, dtype=np.int32)
    kind = h5py.string_dtype() if isinstance(values, list) else values.dtype
    scale = group.create_dataset(axis.name, data=_plain(values), dtype=kind)
    scale.make_scale(axis.name)
    if axis.kind == schema.POSITION:
        scale.attrs["units"] = POSITION_UNITS
    if axis.lengths is not None and schema.SAMPLE in group:
        scale.attrs["lengths"] = axis.lengths
    return scale


def _label(
    dataset: h5py.Dataset, array: schema.Array, scales: Mapping[str, h5py.Dataset], before: Sequence[str]
) -> None:
    for place, dim in enumerate((*before, *array.dims)):
        _attach(dataset, place, dim, scales[dim])
    if array.long_name:
        dataset.attrs["long_name"] = array.long_name


def _attach(dataset: h5py.Dataset, place: int, label: str, scale: h5py.Dataset) -> None:
    dataset.dims[place].label = label
    dataset.dims[place].attach_scale(scale)


def _plain(values: schema.Values) -> NDArray[Any]:
    """Text as an object array of exactly one axis, whatever the texts look like."""
    return np.array(values, dtype=object) if isinstance(values, list) else values


def _write_names(holder: h5py.HLObject, name: str, texts: Sequence[str]) -> None:
    """A list of text as an attribute, empty ones too."""
    holder.attrs.create(name, _plain(list(texts)), shape=(len(texts),), dtype=h5py.string_dtype())


def _set_attributes(holder: h5py.HLObject, attributes: Mapping[str, schema.Attribute]) -> None:
    for name, value in sorted(attributes.items()):
        if isinstance(value, bool):
            holder.attrs[name] = np.int8(value)
        elif isinstance(value, int):
            holder.attrs[name] = np.int64(value)
        elif isinstance(value, tuple):
            real = any(isinstance(number, float) for number in value)
            holder.attrs[name] = np.asarray(value, dtype=np.float64 if real else np.int32)
        else:
            holder.attrs[name] = value
