"""What an open file of results says of itself: its layout, its samples, and all its arrays block by block.

Arrays of formats 1.0 and 1.1 (attention of promoters and of alignments, attributions) stand where those of format
2.0 do. What those files do not say is said here: what their axes are, and which columns their sample tables have.
Their digests of single arrays (`sha256`, `content_sha256`) are not compared; HDF5's checksums and the seal are,
where a file has one.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import Axis
from bioattn.errors import FormatError
from bioattn.io.hdf5_input import other_format, strings, text_attribute
from bioattn.store import schema
from bioattn.store.shard_record import SHARD, SHARD_INPUTS, SHARD_JOB, read_shard
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS

_ROOT = ("format", "format_version", "generated_by", "model_sha256", "inputs", SHARD, SHARD_INPUTS, SHARD_JOB)
_OF_AXES = ("axes", "axis_kinds", "axis_lengths")


def require_format(path: Path, file: h5py.File, format_name: str = schema.FORMAT) -> None:
    """Refuse a file of another format, or of a major version above that which this reader knows.

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
    if int(major) > int(schema.FORMAT_VERSION.partition(".")[0]):
        raise FormatError(
            f"{path}: {what.removesuffix(' file')} format {version} is newer than {schema.FORMAT_VERSION}, which "
            "this bioattn reads; use a newer bioattn"
        )


def stored_inputs(file: h5py.File) -> str:
    """What the samples of a file are, such as `promoters`; files of format 1.x over promoters do not say so."""
    return text_attribute(file, "inputs") or (PROMOTERS if is_version_1(file) else "")


def stored_columns(file: h5py.File) -> tuple[tuple[schema.Column, ...], tuple[schema.ListColumn, ...]]:
    """The columns of the sample table but `id`, and its lists."""
    if is_version_1(file):
        return (
            (PROMOTER_COLUMNS, ())
            if stored_inputs(file) == PROMOTERS
            else (_ALIGNMENT_COLUMNS, _ALIGNMENT_LISTS)
        )
    group = file["samples"]
    columns = [
        schema.Column(
            name, _type_of(group[name]), *(_text(group[name], each) for each in ("long_name", "lengths"))
        )
        for name in _names(group, "columns")
    ]
    lists = [
        schema.ListColumn(
            name,
            *(_text(group[name], each) for each in ("dtype", "kind", "lengths", "choice_of", "long_name")),
        )
        for name in _names(group, "lists")
    ]
    return tuple(columns), tuple(lists)


def stored_group(file: h5py.File, path: str) -> schema.GroupLayout:
    """The layout of one group. Raises: KeyError, ValueError (in `damage_named` FormatError) when it is damaged."""
    group = file[path]
    if is_version_1(file):
        names, kinds, columns = axes_of(file, path)
    else:
        names, kinds, columns = (_names(group, name) for name in _OF_AXES)
    per_sample = names[0] != schema.SAMPLE
    holder = group.get(schema.sample_group(0), {}) if per_sample else group
    limit = int(group.attrs.get("top_k", 0)) or None
    axes = [
        _stored_axis(holder, name, kind, column or None, limit if name == schema.RANK else None, per_sample)
        for name, kind, column in zip(names if per_sample else names[1:], kinds, columns, strict=True)
    ]
    arrays = []
    for name, item in holder.items():
        dims = tuple(str(dim.label) for dim in item.dims)
        if any(dims):
            dims = dims if per_sample else dims[1:]
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
        shard=read_shard(path, file),
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


def sample_slabs(file: h5py.File, layout: schema.FileLayout, number: int) -> Iterator[schema.Slab]:
    """All arrays of one sample's own, in C order, a few megabytes at a time."""
    for group in layout.groups:
        for array in group.arrays if group.per_sample else ():
            dataset = file[f"{group.path}/{schema.sample_group(number)}/{array.name}"]
            for index in schema.slabs(dataset.shape, array.itemsize):
                yield schema.Slab(group.path, array.name, index, dataset[index])


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


def _names(holder: h5py.HLObject, name: str) -> list[str]:
    """A list of text in an attribute."""
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
    return int(value) if isinstance(value, np.integer) else str(value)


_ALIGNMENT_COLUMNS = (
    schema.Column("length", "int32"),
    schema.Column("alignment_columns", "int32"),
    schema.Column("rows", "int32"),
    schema.Column("extra_rows", "int32"),
    schema.Column("query", schema.TEXT, lengths="length"),
    schema.Column("input_sha256", schema.TEXT),
)
_ALIGNMENT_LISTS = (
    schema.ListColumn("columns", "int32", "residue", "length", "alignment_columns"),
    schema.ListColumn("extra_row_names", schema.TEXT, "extra_msa_row", "extra_rows"),
    schema.ListColumn("row_names", schema.TEXT, "msa_row", "rows"),
)
_LENGTHS = {"residue": "length", "msa_row": "rows", "extra_msa_row": "extra_rows"}


def is_version_1(file: h5py.File) -> bool:
    """Whether an open file of results is of format 1.x."""
    return (text_attribute(file, "format_version") or "").startswith("1.")


def refuse_part(path: Path, file: h5py.File) -> None:
    """Raises: FormatError for a part of a sharded run of format 1.x, which is not put together any more."""
    if is_version_1(file):
        raise FormatError(
            f"{path}: is of format {text_attribute(file, 'format_version')}, whose parts are not put together any "
            "more; make it again, or merge with the version that made the parts"
        )


def axes_of(file: h5py.File, path: str) -> tuple[list[str], list[str], list[str]]:
    """Names of the axes of one of its groups, and the kind and the column of lengths of all but `sample`."""
    group = file[path]
    if stored_inputs(file) == PROMOTERS:
        dataset = group[schema.WEIGHTS] if path.startswith(schema.SITES) else group["values"]
        names = [str(dim.label) for dim in dataset.dims]
        kinds = [_promoter_kind(group, name) for name in names[1:]]
        return names, kinds, [""] * len(kinds)
    array = group[f"{schema.sample_group(0)}/{schema.WEIGHTS}"]
    names = [str(dim.label) for dim in array.dims]
    rows = "extra_msa_row" if group.attrs["extra_rows"] else "msa_row"
    keys = "residue" if text_attribute(group, "keys") == "residue" else rows
    kinds = [{"row": rows, "query": keys, "key": keys}.get(name, name) for name in names]
    lengths = [_LENGTHS.get(kind, "") for kind in kinds]
    if names[-1] == "rank":
        lengths[-1] = _LENGTHS[keys]
        names, kinds, lengths = [*names, "key"], [*kinds, keys], [*lengths, _LENGTHS[keys]]
    return names, kinds, lengths


def _promoter_kind(group: h5py.Group, name: str) -> str:
    if f"{name}_edges" in group:
        return schema.POSITION
    return "token" if name == "key" else name
