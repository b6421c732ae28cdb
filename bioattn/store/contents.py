"""Results: what an open file says of itself, in a file that is read when it is asked for, or in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.errors import BioattnError, FormatError
from bioattn.io.hdf5 import damage_named, other_format, strings, text_attribute
from bioattn.store import schema
from bioattn.store.shards import SETTINGS, SHARD, SHARD_INPUTS, UNFINISHED, shard_of_hdf5

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledArray:
    """Values with a name and coordinates for each axis. `numpy.asarray` gives the values alone."""

    name: str
    values: NDArray[Any]
    coordinates: Mapping[str, Sequence[Any] | NDArray[Any]]
    """The coordinates along each axis by the axis's name, in the order of the axes."""
    long_name: str
    """What the values are, in words."""

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
            coords={name: list(places) for name, places in self.coordinates.items()},
            dims=self.dims,
            name=self.name,
            attrs={"long_name": self.long_name},
        )

    def to_pandas(self) -> pd.Series:
        """A pandas Series whose index has a level for each axis; `.unstack("position")` makes a table of it."""
        every = pd.MultiIndex.from_product(list(self.coordinates.values()), names=self.dims)
        index = every.get_level_values(0) if len(self.dims) == 1 else every
        return pd.Series(self.values.reshape(-1), index=index, name=self.name)


_ROOT = (
    "format",
    "format_version",
    "generated_by",
    "model_sha256",
    "inputs",
    SHARD,
    SHARD_INPUTS,
    SETTINGS,
    UNFINISHED,
)
_OF_AXES = ("axes", "axis_kinds", "axis_lengths")


def require_format(path: Path, file: h5py.File, format_name: str = schema.FORMAT) -> None:
    """Refuse a file of another format, or of another major version.

    Raises: FormatError.
    """
    what = f"{format_name.removeprefix('bioattn-')} file"
    found = text_attribute(file, "format")
    if found != format_name:
        raise other_format(path, what, found, format_name)
    version = text_attribute(file, "format_version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise FormatError(f"{path}: format_version {version!r} is not of the form {schema.FORMAT_VERSION!r}")
    if major != schema.FORMAT_VERSION.partition(".")[0]:
        raise FormatError(
            f"{path}: {what.removesuffix(' file')} format {version} is not {schema.FORMAT_VERSION}, which this "
            "bioattn reads; make the file again, or use the bioattn that wrote it"
        )


def stored_inputs(file: h5py.File) -> str:
    """What the samples of a file are, such as `promoters`."""
    return text_attribute(file, "inputs") or ""


def stored_columns(file: h5py.File) -> tuple[tuple[schema.Column, ...], tuple[schema.ListColumn, ...]]:
    """The columns of the sample table but `id`, and its lists."""
    group = file["samples"]
    columns = [
        schema.Column(
            name, _type_of(group[name]), *(_text(group[name], each) for each in ("long_name", "lengths"))
        )
        for name in text_list(group, "columns")
    ]
    lists = [
        schema.ListColumn(
            name,
            *(_text(group[name], each) for each in ("dtype", "kind", "lengths", "choice_of", "long_name")),
        )
        for name in text_list(group, "lists")
    ]
    return tuple(columns), tuple(lists)


def stored_group(file: h5py.File, path: str) -> schema.GroupLayout:
    """The layout of one group. Raises: KeyError, ValueError (in `damage_named` FormatError) when it is damaged."""
    group = file[path]
    names, kinds, columns = (text_list(group, name) for name in _OF_AXES)
    per_sample = names[0] != schema.SAMPLE
    holder = group.get(schema.sample_group(0), {}) if per_sample else group
    limit = int(group.attrs.get("top_k", 0)) or None
    axes = [
        _stored_axis(holder, name, kind, column or None, limit if name == schema.RANK else None, per_sample)
        for name, kind, column in zip(names if per_sample else names[1:], kinds, columns, strict=True)
    ]
    arrays = []
    for name, item in holder.items():
        if "dims" in item.attrs:
            dims = tuple(text_list(item, "dims"))[0 if per_sample else 1 :]
            arrays.append(schema.Array(name, str(item.dtype), dims, _text(item, "long_name")))
    attributes = {name: _attribute(value) for name, value in group.attrs.items() if name not in _OF_AXES}
    return schema.GroupLayout(
        path=path, axes=tuple(axes), arrays=tuple(arrays), attributes=attributes, per_sample=per_sample
    )


def group_paths(file: h5py.File) -> list[str]:
    others = [name for name in file if name not in ("samples", schema.SITES)]
    return [*others, *(f"{schema.SITES}/{name}" for name in file.get(schema.SITES, {}))]


def stored_layout(path: Path, file: h5py.File) -> schema.FileLayout:
    """All that a file says but its samples. Raises: FormatError when its record of a shard is damaged."""
    columns, lists = stored_columns(file)
    return schema.FileLayout(
        format=text_attribute(file, "format") or "",
        inputs=stored_inputs(file),
        model_sha256=text_attribute(file, "model_sha256") or "",
        attributes={name: _attribute(value) for name, value in file.attrs.items() if name not in _ROOT},
        columns=columns,
        lists=lists,
        groups=tuple(stored_group(file, group) for group in group_paths(file)),
        shard=shard_of_hdf5(path, file),
    )


def read_samples(
    file: h5py.File,
    columns: Sequence[schema.Column],
    lists: Sequence[schema.ListColumn] = (),
    rows: slice = slice(None),
) -> schema.Samples:
    """Some samples with these columns and lists."""
    group = file["samples"]
    values: dict[str, schema.Values] = {
        column.name: strings(group[column.name], rows)
        if column.dtype == schema.TEXT
        else group[column.name][rows]
        for column in (schema.ID, *columns)
    }
    numbers = range(*rows.indices(len(group["id"])))
    return schema.Samples(
        values, {listed.name: [read_list(file, listed, number) for number in numbers] for listed in lists}
    )


def read_list(file: h5py.File, listed: schema.ListColumn, number: int) -> schema.Values | None:
    """The list of the sample with this number; None without one."""
    dataset = file.get(f"samples/{listed.name}/{schema.sample_group(number)}")
    if dataset is None:
        return None
    return strings(dataset) if listed.dtype == schema.TEXT else np.asarray(dataset[:])


def read_block(file: h5py.File, layout: schema.FileLayout, rows: slice) -> schema.Block:
    """Some samples with their arrays, but those of each sample's own."""
    arrays = {
        group.path: {array.name: file[f"{group.path}/{array.name}"][rows] for array in group.arrays}
        for group in layout.groups
        if not group.per_sample
    }
    return schema.Block(read_samples(file, layout.columns, layout.lists, rows), arrays)


def main_array(layout: schema.GroupLayout) -> schema.Array | None:
    """The weights of a site, the values of another group; None where a file has no sample to tell."""
    named = {array.name: array for array in layout.arrays}
    return named.get(schema.WEIGHTS) or named.get("values")


def has_key_index(layout: schema.GroupLayout) -> bool:
    """Whether a site holds the largest weights of each query only."""
    return any(array.name == schema.KEY_INDEX for array in layout.arrays)


def _stored_axis(
    holder: Mapping[str, Any], name: str, kind: str, lengths: str | None, limit: int | None, per_sample: bool
) -> Axis:
    scale, edges = holder.get(name), holder.get(f"{name}_edges")
    if lengths is not None or scale is None:
        size = None if per_sample or scale is None else len(scale)
        return Axis(name, kind, size=size, lengths=lengths, limit=limit)
    if edges is not None:
        return Axis(name, kind, edges=tuple(edges[:].tolist()))
    if h5py.check_string_dtype(scale.dtype) is not None:
        return Axis(name, kind, coordinates=tuple(strings(scale)))
    values: NDArray[Any] = scale[:]
    counted = np.array_equal(values, np.arange(len(values)))
    return Axis(name, kind, size=len(values), coordinates=None if counted else tuple(values.tolist()))


def text_list(holder: h5py.HLObject, name: str) -> list[str]:
    """A list of text in an attribute. Raises: KeyError when it is missing."""
    return [
        text.decode() if isinstance(text, bytes) else str(text) for text in np.atleast_1d(holder.attrs[name])
    ]


def _text(holder: h5py.HLObject, name: str) -> str:
    return text_attribute(holder, name) or ""


def _type_of(dataset: h5py.Dataset) -> str:
    return schema.TEXT if h5py.check_string_dtype(dataset.dtype) is not None else str(dataset.dtype)


def _attribute(value: Any) -> schema.Attribute:
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, np.int8):
        return bool(value)
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return int(value) if isinstance(value, np.integer) else str(value)


HeldArrays = Mapping[str, Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]]]
"""By path of the group and name; a list with an array for each sample where the group has those."""


class Stored:
    """Results in an open HDF5 file."""

    def __init__(self, path: Path, file: h5py.File, format_name: str = schema.FORMAT) -> None:
        """Raises: FormatError when it is of another format, a newer major version, or damaged."""
        require_format(path, file, format_name)
        self.path, self._file = path, file
        with damage_named(path):
            self.layout = stored_layout(path, file)

    @cached_property
    def samples(self) -> schema.Samples:
        """The sample table, without lists."""
        with damage_named(self.path):
            return read_samples(self._file, self.layout.columns)

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        """A list of the sample with this number; None where it has none."""
        with damage_named(self.path):
            return read_list(self._file, column, number)

    def shape(self, group: str, array: str, number: int | None = None) -> tuple[int, ...]:
        """The shape of an array; number: of the sample whose array it is, where each has one."""
        with damage_named(self.path):
            return tuple(self._dataset(group, array, number).shape)

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        """Some values of an array. selection: for each axis a number, a list of numbers or a slice."""
        with damage_named(self.path):
            return read_selection(self._dataset(group, array, number), selection)

    def save(self, path: Path) -> None:
        """Copy the file. Raises: BioattnError when it cannot be written."""
        import shutil

        from bioattn.io.files import atomic_output

        with atomic_output(path) as temporary:
            shutil.copyfile(self.path, temporary)

    def _dataset(self, group: str, array: str, number: int | None) -> h5py.Dataset:
        own = "" if number is None else f"{schema.sample_group(number)}/"
        return self._file[f"{group}/{own}{array}"]


class Held:
    """Results in memory."""

    path = Path("the results in memory")
    """For messages."""

    def __init__(self, layout: schema.FileLayout, samples: schema.Samples, arrays: HeldArrays) -> None:
        self.layout, self.samples, self._arrays = layout, samples, arrays

    def listed(self, column: schema.ListColumn, number: int) -> schema.Values | None:
        return self.samples.lists[column.name][number]

    def shape(self, group: str, array: str, number: int | None = None) -> tuple[int, ...]:
        return tuple(self._array(group, array, number).shape)

    def read(self, group: str, array: str, selection: list[Any], number: int | None = None) -> NDArray[Any]:
        return read_selection(self._array(group, array, number), selection)

    def save(self, path: Path) -> None:
        """Write the results as HDF5. Raises: BioattnError when it cannot be written."""
        from bioattn.store.writer import result_file

        with result_file(path, self.layout, len(self.samples), keep=False) as writer:
            writer.append(schema.Block(self.samples, self._arrays))  # type: ignore[arg-type]

    def _array(self, group: str, array: str, number: int | None) -> NDArray[Any]:
        values = self._arrays[group][array]
        return values if number is None else values[number]  # type: ignore[return-value]


Contents = Stored | Held


class Collector:
    """Keeps the blocks of a model in memory: what `bioattn.store.writer.ResultWriter` does with a file."""

    def __init__(self, layout: schema.FileLayout) -> None:
        self.layout = layout
        self._groups = {group.path: group for group in layout.groups}
        self._samples: list[schema.Samples] = []
        self._arrays: dict[str, dict[str, list[NDArray[Any]]]] = {
            path: {array.name: [] for array in group.arrays} for path, group in self._groups.items()
        }

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

    def contents(self) -> Held:
        """All that was kept."""
        arrays: dict[str, dict[str, Any]] = {}
        for path, group in self._groups.items():
            kept = self._arrays[path]
            arrays[path] = {
                name: values if group.per_sample else np.concatenate(values) if len(values) > 1 else values[0]
                for name, values in kept.items()
            }
        samples = schema.join_blocks([schema.Block(each, {}) for each in self._samples]).samples
        return Held(self.layout, samples, arrays)


class SampleArrays:
    """One group's arrays of one sample, filled in C order."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._filled = 0
        self._total = next(iter(arrays.values())).size

    def write(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the next slices along the first axis, all arrays alike."""
        self.write_rows(arrays)

    def write_rows(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the next rows (rows, last axis)."""
        values = next(iter(arrays.values()))
        for name, whole in self._arrays.items():
            whole.reshape(-1)[self._filled : self._filled + values.size] = arrays[name].reshape(-1)
        self._filled += values.size

    @property
    def complete(self) -> bool:
        """Whether all values are there."""
        return self._filled == self._total


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
