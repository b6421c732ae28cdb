"""Writing a file of results once: blocks of samples, and slices of one sample's own arrays, as they come.

The file is written under a temporary name and renamed when it is whole. Of long work Ctrl-C and SIGTERM close it
behind the last whole sample as `NAME.partial`, with which `resume` goes on. One thread writes, call after call,
while the model computes what comes next: the same bytes in the same order as without it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.attention.site import Axis
from bioattn.errors import BioattnError, Interrupted
from bioattn.io.files import parse_json, partial_path, remove_leftover, temporary_path, unwritable
from bioattn.io.hdf5 import (
    create_array,
    fixed_text,
    hdf5_output,
    open_hdf5,
    put_array,
    set_attribute,
    text_attribute,
)
from bioattn.store import schema
from bioattn.store.contents import SampleArrays, read_samples
from bioattn.store.shards import SETTINGS, UNFINISHED

POSITION_UNITS = "bases from the first base of the window, 5'->3'"


@dataclass
class _Background:
    """Runs the calls that it is given in one thread, one after the other, while the caller computes the next."""

    _thread: ThreadPoolExecutor
    _running: "Future[None] | None" = None

    def run(self, call: Callable[[Any], None], argument: Any) -> None:
        """Begin a call when the one before has ended. Raises: what that one raised."""
        self.wait()
        self._running = self._thread.submit(call, argument)

    def wait(self) -> None:
        """Wait for the last call. Raises: what it raised."""
        running, self._running = self._running, None
        if running is not None:
            running.result()


class ResultWriter:
    """An open file of results that is being written; made by `result_file`."""

    def __init__(
        self,
        file: h5py.File,
        layout: schema.FileLayout,
        num_samples: int,
        settings: str,
        check: Callable[[], None],
        background: _Background,
    ) -> None:
        """num_samples: at most. settings: JSON. check: raises when a write has failed.

        A `file` that holds samples is gone on with."""
        self._file = file
        self._background = background
        self._layout = layout
        self._num_samples = num_samples
        self._check = check
        self._table: list[schema.Samples] = []
        self._appended = 0
        self._total = num_samples if layout.shard is None else layout.shard.total
        self._arrays: list[tuple[schema.GroupLayout, schema.Array, h5py.Dataset]] = []
        """Those that samples share; kept open, so that HDF5's cache puts parts of a chunk together."""
        if "samples" in file:
            self._go_on()
            return
        attributes = {
            "format": layout.format,
            "format_version": schema.FORMAT_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_sha256": layout.model_sha256,
            "inputs": layout.inputs,
            SETTINGS: settings,
            **layout.attributes,
            **({} if layout.shard is None else layout.shard.attributes()),
        }
        for name, value in attributes.items():
            set_attribute(file, name, value)
        put_array(file, "layout", [layout.to_json()])
        group = file.create_group("samples")
        for listed in layout.lists:
            set_attribute(group.create_group(listed.name), "long_name", listed.long_name)
        file.create_group(schema.SITES)
        for each in layout.groups:
            self._create_group(each)

    @property
    def ids(self) -> list[str]:
        """The samples that were written."""
        self._background.wait()
        return [name for samples in self._table for name in samples.ids]

    def __len__(self) -> int:
        self._background.wait()
        return self._appended

    def append(self, block: schema.Block) -> None:
        """Write the next samples, their lists and their arrays, which must not change afterwards.

        Arrays of ragged axes may be as long as the longest of the block: what lies behind a sample's end becomes
        0. Raises: what writing the block before has raised.
        """
        self._background.run(self._append, block)

    def _append(self, block: schema.Block) -> None:
        samples = block.samples
        rows = slice(self._appended, self._appended + len(samples))
        for layout, array, dataset in self._arrays:
            dataset[rows] = layout.padded(array, block.arrays[layout.path][array.name], samples)
        for place, layout, arrays in self._begin(samples):
            for array in layout.arrays:
                within = layout.within(array, samples.lengths(place))
                arrays[array.name][...] = block.arrays[layout.path][array.name][place][within]
        self._end(samples)

    @contextmanager
    def sample(self, sample: schema.Samples) -> Iterator[Mapping[str, SampleArrays]]:
        """Write one sample whose arrays are all its own, by path of the group; nothing of it stays when the body
        raises."""
        number = len(self)
        run = self._background.run
        try:
            yield {layout.path: SampleArrays(arrays, run) for _, layout, arrays in self._begin(sample)}
            self._background.wait()
        except BaseException:
            self._background.wait()
            lists = [f"samples/{listed.name}" for listed in self._layout.lists]
            for holder in lists + [group.path for group in self._layout.groups]:
                if (name := f"{holder}/{schema.sample_group(number)}") in self._file:
                    del self._file[name]
            raise
        self._end(sample)

    def written(self) -> Iterator[schema.Block]:
        """What an interrupted run has left, some samples at a time, without arrays of samples' own."""
        table = _joined_table(self._table, self._layout)
        size = sum(group.bytes_of_sample() for group in self._layout.groups if not group.per_sample)
        step = max(1, schema.SLAB_BYTES // max(1, size))
        for first in range(0, len(table), step):
            rows = slice(first, min(first + step, len(table)))
            arrays: dict[str, dict[str, NDArray[Any]]] = {}
            for layout, array, dataset in self._arrays:
                arrays.setdefault(layout.path, {})[array.name] = dataset[rows]
            yield schema.Block(table.part(rows), arrays)

    def copy(self, file: h5py.File, samples: schema.Samples) -> None:
        """Write the samples of another file of the same layout; whole chunks are copied as they are stored."""
        for _, _, dataset in self._arrays:
            _copy_array(file[dataset.name], dataset, self._appended)
        for place, layout, arrays in self._begin(samples):
            for name, dataset in arrays.items():
                _copy_array(file[f"{layout.path}/{schema.sample_group(place)}/{name}"], dataset, 0)
        self._end(samples)

    def _begin(
        self, samples: schema.Samples
    ) -> Iterator[tuple[int, schema.GroupLayout, dict[str, h5py.Dataset]]]:
        """Write the lists of the next samples and make their own arrays: place of a sample, group, arrays."""
        for place in range(len(samples)):
            number, lengths = schema.sample_group(self._appended + place), samples.lengths(place)
            lists = {listed.name: samples.lists[listed.name][place] for listed in self._layout.lists}
            for listed in self._layout.lists:
                if (values := lists[listed.name]) is not None:
                    is_text = listed.dtype == schema.TEXT
                    stored = list(map(str, values)) if is_text else np.asarray(values, listed.dtype)
                    put_array(self._file[f"samples/{listed.name}"], number, stored)
            places = schema.listed_places(self._layout.lists, lambda each: lists[each.name])  # noqa: B023
            for layout in self._layout.groups:
                if layout.per_sample:
                    group = self._file[layout.path].create_group(number)
                    set_attribute(group, schema.SAMPLE, samples.ids[place])
                    arrays = _create_arrays(group, layout, None, (), lengths, places)
                    yield place, layout, arrays

    def _end(self, samples: schema.Samples) -> None:
        self._appended += len(samples)
        self._table.append(samples)
        self._check()

    def close(self, *, unfinished: bool = False) -> None:
        """Write what waits, and the table of the samples. unfinished: say that samples are missing."""
        self._background.wait()
        if unfinished:
            set_attribute(self._file, UNFINISHED, True)
        table = _joined_table(self._table, self._layout)
        group = self._file["samples"]
        for column in (schema.ID, *self._layout.columns):
            values = table.columns[column.name]
            dataset = put_array(group, column.name, values)
            if column.long_name:
                set_attribute(dataset, "long_name", column.long_name)
        group[schema.ID.name].make_scale(schema.ID.name)
        for column in self._layout.columns:
            _attach(group[column.name], 0, schema.ID.name, group[schema.ID.name])
        for layout in self._layout.groups:
            if not layout.per_sample:
                scale = put_array(self._file[layout.path], schema.SAMPLE, table.ids)
                scale.make_scale(schema.SAMPLE)
                self._write_names(layout, table)
        for layout, _, dataset in self._arrays:
            if len(dataset) != self._appended:
                dataset.resize(self._appended, axis=0)
            _attach(dataset, 0, schema.SAMPLE, self._file[layout.path][schema.SAMPLE])
        self._check()

    def _write_names(self, layout: schema.GroupLayout, table: schema.Samples) -> None:
        """What samples that share arrays call their places, (sample, axis), as further coordinates (CF)."""
        listed = [
            schema.listed_places(self._layout.lists, lambda each: table.lists[each.name][row])  # noqa: B023
            for row in range(len(table))
        ]
        group = self._file[layout.path]
        for axis in layout.axes:
            if axis.lengths is None or not any(axis.kind in each for each in listed):
                continue
            places = [fixed_text(list(each.get(axis.kind, [""]))) for each in listed]
            dtype = max((each.dtype for each in places), key=lambda dtype: dtype.itemsize)
            names = np.zeros((len(table), schema.axis_length(axis)), dtype)
            for row, each in enumerate(places):
                names[row, : len(each)] = each
            dataset = put_array(group, f"{axis.name}_name", names)
            _attach(dataset, 0, schema.SAMPLE, group[schema.SAMPLE])
            _attach(dataset, 1, axis.name, group[axis.name])
        for array in layout.arrays:
            further = [f"{dim}_name" for dim in array.dims if f"{dim}_name" in group]
            if further:
                set_attribute(group[array.name], "coordinates", " ".join(further))

    def _go_on(self) -> None:
        """Take the samples of an interrupted file up again."""
        del self._file.attrs[UNFINISHED]
        group = self._file["samples"]
        table = read_samples(self._file, self._layout.columns, self._layout.lists)
        self._table = [table]
        self._appended = len(table)
        for column in (schema.ID, *self._layout.columns):
            del group[column.name]
        for layout in self._layout.groups:
            of_group = self._file[layout.path]
            for array in () if layout.per_sample else layout.arrays:
                dataset = of_group[array.name]
                dataset.dims[0].detach_scale(of_group[schema.SAMPLE])
                dataset.resize(self._num_samples, axis=0)
                self._arrays.append((layout, array, dataset))
            for name in (schema.SAMPLE, *(f"{axis.name}_name" for axis in layout.axes)):
                of_group.pop(name, None)

    def _create_group(self, layout: schema.GroupLayout) -> None:
        group = self._file.create_group(layout.path)
        dims = [axis.name for axis in layout.axes]
        set_attribute(group, "axes", dims if layout.per_sample else [schema.SAMPLE, *dims])
        for name, value in sorted(layout.attributes.items()):
            set_attribute(group, name, value)
        if not layout.per_sample:
            arrays = _create_arrays(group, layout, max(1, self._total), (self._num_samples,))
            self._arrays += [(layout, array, arrays[array.name]) for array in layout.arrays]


@contextmanager
def result_file(
    output: Path,
    layout: schema.FileLayout,
    num_samples: int,
    *,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    keep: bool = True,
) -> Iterator[ResultWriter]:
    """Write the file `output`, which gets its name when the body has ended well, and go on with an earlier run.

    num_samples: at most. settings: JSON values of all that decides the content; a shard has them in its record.
    When the body raises Interrupted or KeyboardInterrupt, or anything in a run that went on with an earlier one,
    the samples that are there stay as `NAME.partial`. resume: go on with that. force: start again. keep: False
    does neither look for a `NAME.partial` nor leave one.

    Raises: BioattnError when the file cannot be written, for a `NAME.partial` of other settings, and for any where
    neither `resume` nor `force` is given.
    """
    if layout.shard is not None:
        settings = layout.shard.settings
    text = json.dumps(settings or {}, sort_keys=True, ensure_ascii=False)
    partial, temporary = partial_path(output), temporary_path(output)
    if output.is_dir():
        raise BioattnError(f"{output}: is a folder, a file name is needed")
    try:
        going_on = keep and partial.is_file() and not force
        if going_on:
            if not resume:
                raise BioattnError(
                    f"{partial}: is of an interrupted run; give --resume to go on with it, or --force to start "
                    "again"
                )
            _require_same_settings(partial, text)
            partial.replace(temporary)
        stopped: BaseException | None = None
        with hdf5_output(temporary, new=not going_on) as (file, raw), ThreadPoolExecutor(1) as thread:
            writer = ResultWriter(file, layout, num_samples, text, raw.check, _Background(thread))
            try:
                yield writer
            except BaseException as stop:
                if not keep or (not going_on and not isinstance(stop, Interrupted | KeyboardInterrupt)):
                    raise
                stopped = stop
            writer.close(unfinished=stopped is not None)
        if stopped is not None:
            if len(writer):
                temporary.replace(partial)
            raise stopped
        temporary.replace(output)
        if keep:
            remove_leftover(partial)
    except OSError as error:
        raise unwritable(output, error) from error
    finally:
        remove_leftover(temporary)


def _require_same_settings(partial: Path, settings: str) -> None:
    with open_hdf5(partial) as file:
        earlier = parse_json(text_attribute(file, SETTINGS) or "{}", str(partial))
        version = text_attribute(file, "generated_by")
    now = json.loads(settings)
    different = sorted(name for name in {*now, *earlier} if now.get(name) != earlier.get(name))
    if version != f"bioattn {__version__}":
        different.append("version of bioattn")
    if different:
        raise BioattnError(
            f"{partial}: is of another run (different: {', '.join(different)}); repeat that run's command, or "
            "give --force to start again"
        )


def _copy_array(source: h5py.Dataset, target: h5py.Dataset, row: int) -> None:
    """Copy all of `source` to the rows of `target` from `row` on: stored chunks where they fall together, else
    values."""
    step = target.chunks[0]
    ends = len(source) % step == 0 or row + len(source) == len(target)
    if source.chunks != target.chunks or row % step or not ends:
        for index in schema.slabs(source.shape, source.dtype.itemsize):
            first, *others = index
            place = slice(first.start + row, first.stop + row) if isinstance(first, slice) else first + row
            target[(place, *others)] = source[index]
        return

    def copy(chunk: Any) -> None:
        mask, content = source.id.read_direct_chunk(chunk.chunk_offset)
        first, *others = chunk.chunk_offset
        target.id.write_direct_chunk((first + row, *others), content, mask)

    source.id.chunk_iter(copy)


def _joined_table(table: Sequence[schema.Samples], layout: schema.FileLayout) -> schema.Samples:
    if table:
        return schema.join_samples(table)
    columns: dict[str, schema.Values] = {
        column.name: [] if column.dtype == schema.TEXT else np.zeros(0, column.dtype)
        for column in (schema.ID, *layout.columns)
    }
    return schema.Samples(columns, {listed.name: [] for listed in layout.lists})


def _create_arrays(
    group: h5py.Group,
    layout: schema.GroupLayout,
    total: int | None,
    before: tuple[int, ...],
    lengths: Mapping[str, int] | None = None,
    listed: Mapping[str, schema.Values] | None = None,
) -> dict[str, h5py.Dataset]:
    """The arrays of a group and the scales of their axes. before: samples, where all share an array.

    total: samples of all shards, by which chunks are cut; lengths, listed: as `schema.axis_places`.
    """
    scales = {axis.name: _write_axis(group, axis, lengths, listed) for axis in layout.axes}
    arrays = {}
    for array in layout.arrays:
        shape = (*before, *layout.shape(array, lengths))
        chunks = layout.chunk(array, total, lengths)
        dataset = arrays[array.name] = create_array(group, array.name, shape, array.dtype, chunks=chunks)
        dims = (schema.SAMPLE, *array.dims) if before else array.dims
        for place, dim in enumerate(dims):
            if dim in scales:
                _attach(dataset, place, dim, scales[dim])
        if array.long_name:
            set_attribute(dataset, "long_name", array.long_name)
    return arrays


def _write_axis(
    group: h5py.Group,
    axis: Axis,
    lengths: Mapping[str, int] | None = None,
    listed: Mapping[str, schema.Values] | None = None,
) -> h5py.Dataset:
    """The dimension scale of an axis, and the edges of its bins. lengths, listed: as `schema.axis_places`."""
    if axis.edges is not None:
        edges = put_array(group, f"{axis.name}_edges", np.asarray(axis.edges, dtype=np.int32))
        edges.make_scale(f"{axis.name}_edges")
        set_attribute(edges, "units", POSITION_UNITS)
    scale = put_array(group, axis.name, schema.axis_places(axis, lengths, listed))
    scale.make_scale(axis.name)
    if axis.kind == schema.POSITION:
        set_attribute(scale, "units", POSITION_UNITS)
    if axis.lengths is not None and lengths is None:
        set_attribute(scale, "lengths", axis.lengths)
    return scale


def _attach(dataset: h5py.Dataset, place: int, label: str, scale: h5py.Dataset) -> None:
    dataset.dims[place].label = label
    dataset.dims[place].attach_scale(scale)
