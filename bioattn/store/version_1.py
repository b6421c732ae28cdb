"""Files of formats 1.0 and 1.1: attention of promoters and of alignments, and attributions.

Their arrays stand where those of format 2.0 do. What they do not say is said here: what their axes are, and which
columns their sample tables have. Their digests of single arrays (`sha256`, `content_sha256`) are not compared;
HDF5's checksums and the seal are, where a file has one.
"""

from pathlib import Path

import h5py

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import text_attribute
from bioattn.store.schema import POSITION, SITES, TEXT, WEIGHTS, Column, ListColumn, sample_group
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS

_ALIGNMENT_COLUMNS = (
    Column("length", "int32"),
    Column("alignment_columns", "int32"),
    Column("rows", "int32"),
    Column("extra_rows", "int32"),
    Column("query", TEXT, lengths="length"),
    Column("input_sha256", TEXT),
)
_ALIGNMENT_LISTS = (
    ListColumn("columns", "int32", "residue", "length", "alignment_columns"),
    ListColumn("extra_row_names", TEXT, "extra_msa_row", "extra_rows"),
    ListColumn("row_names", TEXT, "msa_row", "rows"),
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


def inputs_of(file: h5py.File) -> str:
    """What its samples are: files over promoters do not say so."""
    return text_attribute(file, "inputs") or PROMOTERS


def columns_of(file: h5py.File) -> tuple[tuple[Column, ...], tuple[ListColumn, ...]]:
    """The columns of its sample table but `id`, and its lists."""
    if inputs_of(file) == PROMOTERS:
        return PROMOTER_COLUMNS, ()
    return _ALIGNMENT_COLUMNS, _ALIGNMENT_LISTS


def axes_of(file: h5py.File, path: str) -> tuple[list[str], list[str], list[str]]:
    """Names of the axes of one of its groups, and the kind and the column of lengths of all but `sample`."""
    group = file[path]
    if inputs_of(file) == PROMOTERS:
        dataset = group[WEIGHTS] if path.startswith(SITES) else group["values"]
        names = [str(dim.label) for dim in dataset.dims]
        kinds = [_promoter_kind(group, name) for name in names[1:]]
        return names, kinds, [""] * len(kinds)
    array = group[f"{sample_group(0)}/{WEIGHTS}"]
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
        return POSITION
    return "token" if name == "key" else name
