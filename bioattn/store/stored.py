"""What an open file of results says of itself: its layout, its samples, and its arrays block by block."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.errors import FormatError
from bioattn.io.hdf5_input import other_format, strings, text_attribute
from bioattn.store import schema
from bioattn.store.shards import SETTINGS, SHARD, SHARD_INPUTS, UNFINISHED, shard_of_hdf5

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
