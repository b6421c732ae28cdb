"""Results: what an open file says of itself, in a file that is read when it is asked for, or in memory."""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import atomic_output, parse_json
from bioattn.io.hdf5 import damage_named, other_format, strings, text_attribute
from bioattn.store import schema
from bioattn.store.shards import shard_of_hdf5

if TYPE_CHECKING:
    import pandas as pd
    import xarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledArray:
    """Values with a name and coordinates for each axis. `numpy.asarray` gives the values alone."""

    name: str
    values: NDArray[Any]
    coordinates: Mapping[str, Sequence[Any] | NDArray[Any]]
    """The coordinates along each axis by the axis's name, in the order of the axes."""
    long_name: str
    further: Mapping[str, tuple[tuple[str, ...], NDArray[Any]]] = field(default_factory=dict)
    """More coordinates by name, along several axes: these, and a name for each place."""

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(self.coordinates)

    def __repr__(self) -> str:
        axes = ", ".join(f"{dim} {size}" for dim, size in zip(self.dims, self.values.shape, strict=True))
        return f"<{self.long_name} at {self.name}: {axes}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def to_xarray(self) -> "xarray.DataArray":
        """An xarray.DataArray. Raises: BioattnError where xarray is not installed."""
        try:
            import xarray
        except ImportError as error:
            raise BioattnError("to_xarray() needs xarray: pip install xarray") from error
        return xarray.DataArray(
            self.values,
            coords={**{name: list(places) for name, places in self.coordinates.items()}, **self.further},
            dims=self.dims,
            name=self.name,
            attrs={"long_name": self.long_name},
        )

    def to_pandas(self) -> "pd.Series":
        """A pandas Series whose index has a level for each axis; `.unstack("position")` makes a table of it."""
        import pandas as pd

        every = pd.MultiIndex.from_product(list(self.coordinates.values()), names=self.dims)
        for name, (dims, places) in self.further.items():
            apart = [dim for dim in self.dims if dim not in dims]
            along = np.expand_dims(places, tuple(self.dims.index(dim) for dim in apart))
            level = np.broadcast_to(along, self.values.shape).reshape(-1)
            every = pd.MultiIndex.from_frame(every.to_frame().assign(**{name: level}))
        index = every.get_level_values(0) if len(every.names) == 1 else every
        return pd.Series(self.values.reshape(-1), index=index, name=self.name)


def stored_layout(path: Path, file: h5py.File) -> schema.FileLayout:
    """All that a file says but its samples.

    Raises: KeyError, ValueError, TypeError (in `damage_named` FormatError) when it is damaged.
    """
    (text,) = strings(file["layout"])
    said = parse_json(text, f"{path}: /layout")
    groups = [
        schema.GroupLayout(
            **{
                **group,
                "axes": tuple(Axis(**_plain(axis)) for axis in group["axes"]),
                "arrays": tuple(schema.Array(**_plain(array)) for array in group["arrays"]),
                "attributes": _plain(group["attributes"]),
            }
        )
        for group in said["groups"]
    ]
    parts = {
        "attributes": _plain(said["attributes"]),
        "columns": tuple(schema.Column(**column) for column in said["columns"]),
        "lists": tuple(schema.ListColumn(**listed) for listed in said["lists"]),
        "groups": tuple(groups),
        "shard": shard_of_hdf5(path, file),
    }
    return schema.FileLayout(**{**said, **parts})


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """Values that JSON has made lists as the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def read_samples(
    file: h5py.File, columns: Sequence[schema.Column], lists: Sequence[schema.ListColumn] = ()
) -> schema.Samples:
    """The samples with these columns and lists."""
    group = file["samples"]
    values: dict[str, schema.Values] = {
        column.name: strings(group[column.name]) if column.dtype == schema.TEXT else group[column.name][:]
        for column in (schema.ID, *columns)
    }
    numbers = range(len(values["id"]))
    return schema.Samples(
        values, {listed.name: [read_list(file, listed, number) for number in numbers] for listed in lists}
    )


def read_list(file: h5py.File, listed: schema.ListColumn, number: int) -> schema.Values | None:
    """The list of the sample with this number; None without one."""
    dataset = file.get(f"samples/{listed.name}/{schema.sample_group(number)}")
    if dataset is None:
        return None
    return strings(dataset) if listed.dtype == schema.TEXT else np.asarray(dataset[:])


class Stored:
    """Results in an open HDF5 file."""

    def __init__(self, path: Path, file: h5py.File, format_name: str = schema.FORMAT) -> None:
        """Raises: FormatError when it is of another format, a newer major version, or damaged."""
        what = format_name.removeprefix("bioattn-")
        found = text_attribute(file, "format")
        if found != format_name:
            raise other_format(path, f"{what} file", found, format_name)
        version = text_attribute(file, "format_version") or ""
        if version.partition(".")[0] != schema.FORMAT_VERSION.partition(".")[0]:
            raise FormatError(
                f"{path}: {what} format {version} is not {schema.FORMAT_VERSION}, which this bioattn reads; make "
                "the file again, or use the bioattn that wrote it"
            )
        self.path, self._file = path, file
        with damage_named(path):
            self.layout = stored_layout(path, file)

    @property
    def _open(self) -> h5py.File:
        if not self._file:
            raise BioattnError(f"{self.path}: was closed; open it again")
        return self._file

    @cached_property
    def samples(self) -> schema.Samples:
        """The sample table, without lists."""
        with damage_named(self.path):
            return read_samples(self._open, self.layout.columns)

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        """A list of the sample with this number; None where it has none."""
        with damage_named(self.path):
            return read_list(self._open, column, number)

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        """Some values of an array. selection: for each axis a number, a list of numbers or a slice."""
        own = "" if number is None else f"{schema.sample_group(number)}/"
        with damage_named(self.path):
            return read_selection(self._open[f"{group}/{own}{array}"], selection)

    def save(self, path: Path) -> None:
        """Copy the file. Raises: BioattnError when it cannot be written."""
        with atomic_output(path) as temporary:
            shutil.copyfile(self.path, temporary)


class Held:
    """Results in memory, to which the blocks of a model are given as to a `bioattn.store.writer.ResultWriter`."""

    path = Path("the results in memory")

    def __init__(self, layout: schema.FileLayout) -> None:
        self.layout = layout
        self._groups = {group.path: group for group in layout.groups}
        self._samples: list[schema.Samples] = []
        self._arrays: dict[str, dict[str, list[NDArray[Any]]]] = {
            path: {array.name: [] for array in group.arrays} for path, group in self._groups.items()
        }
        """Pieces along the samples; an array for each sample where the group has those."""

    def append(self, block: schema.Block) -> None:
        """Keep the next samples."""
        self._samples.append(block.samples)
        for path, arrays in block.arrays.items():
            group, kept = self._groups[path], self._arrays[path]
            for array in group.arrays:
                values = arrays[array.name]
                if not group.per_sample:
                    kept[array.name].append(group.padded(array, values, block.samples))
                    continue
                lengths = [block.samples.lengths(place) for place in range(len(block.samples))]
                kept[array.name] += [
                    values[place][group.within(array, lengths[place])] for place in range(len(values))
                ]

    @contextmanager
    def sample(self, sample: schema.Samples) -> Iterator[Mapping[str, "SampleArrays"]]:
        """Keep one sample whose arrays are all its own, by path of the group."""
        arrays = {
            path: {
                array.name: np.zeros(group.shape(array, sample.lengths(0)), dtype=array.dtype)
                for array in group.arrays
            }
            for path, group in self._groups.items()
        }
        yield {path: SampleArrays(of_group) for path, of_group in arrays.items()}
        self._samples.append(sample)
        for path, of_group in arrays.items():
            for name, values in of_group.items():
                self._arrays[path][name].append(values)

    @property
    def samples(self) -> schema.Samples:
        """The sample table, with lists."""
        if not self._samples:
            return schema.Samples({schema.ID.name: []})
        if len(self._samples) > 1:
            self._samples = [schema.join_samples(self._samples)]
        return self._samples[0]

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        return self.samples.lists[column.name][number]

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        return read_selection(self._array(group, array, number), selection)

    def save(self, path: Path) -> None:
        """Write the results as HDF5. Raises: BioattnError when it cannot be written."""
        from bioattn.store.writer import result_file

        arrays: dict[str, dict[str, Any]] = {
            path: {
                name: pieces if self._groups[path].per_sample else self._array(path, name, None)
                for name, pieces in of_group.items()
            }
            for path, of_group in self._arrays.items()
        }
        with result_file(path, self.layout, len(self.samples), keep=False) as writer:
            writer.append(schema.Block(self.samples, arrays))

    def _array(self, group: str, array: str, number: int | None) -> NDArray[Any]:
        pieces = self._arrays[group][array]
        if number is not None:
            return pieces[number]
        if len(pieces) > 1:
            pieces[:] = [np.concatenate(pieces)]
        return pieces[0]


Contents = Stored | Held


class SampleArrays:
    """One group's arrays of one sample, of NumPy or HDF5, filled in C order."""

    def __init__(
        self, arrays: Mapping[str, Any], run: Callable[[Callable[[Any], None], Any], None] | None = None
    ) -> None:
        """run: calls what writes; at once, if not given."""
        self._arrays = arrays
        self._run = run
        self._shape: tuple[int, ...] = next(iter(arrays.values())).shape
        self._rows = 0

    def write(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Write the next slices along the first axis, or rows (rows, last axis) of one map, all arrays alike.

        What is given must not change afterwards.
        """
        first, some = self._rows, next(iter(values.values()))
        self._rows += some.size // max(1, self._shape[-1])
        if some.ndim < len(self._shape):
            outer, row = divmod(first, self._shape[-2])
            place: Any = (outer, slice(row, row + len(some)))
        else:
            start = first // math.prod(self._shape[1:-1])
            place = slice(start, start + len(some))

        def put(values: Mapping[str, NDArray[Any]]) -> None:
            for name, array in self._arrays.items():
                array[place] = values[name]

        if self._run is None:
            put(values)
        else:
            self._run(put, values)

    @property
    def complete(self) -> bool:
        """Whether all values are there."""
        return self._rows == math.prod(self._shape[:-1])


def read_selection(array: Any, selection: list[Any]) -> NDArray[Any]:
    """Index with any number of lists, in any order; HDF5 takes one at a time, sorted."""
    lists = [axis for axis, choice in enumerate(selection) if isinstance(choice, list)]
    if not lists:
        return np.asarray(array[tuple(selection)])
    axis = lists[0]
    dropped = sum(1 for choice in selection[:axis] if isinstance(choice, int))
    pieces = [
        read_selection(array, [*selection[:axis], number, *selection[axis + 1 :]])
        for number in selection[axis]
    ]
    if pieces:
        return np.stack(pieces, axis=axis - dropped)
    return np.asarray(array[(*selection[:axis], slice(0, 0), *selection[axis + 1 :])])
