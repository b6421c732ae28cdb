"""`bioattn merge`: the whole of all parts of a sharded run."""

import io
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import check_output, open_bytes, parse_json, read_lines, require_free_space, text_output
from bioattn.io.hdf5 import create_array, hdf5_file, is_hdf5, open_hdf5, text_attribute
from bioattn.store import shards
from bioattn.store.contents import read_samples, stored_layout
from bioattn.store.schema import SLAB_BYTES, FileLayout
from bioattn.store.writer import result_file
from bioattn.system.progress import SILENT, Progress
from bioattn.text import listed

_SHOWN = 8
"""Numbers of missing parts in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSummary:
    """What was put together."""

    title: str
    """What it is, in words."""
    parts: list[Path]
    """In the order of their inputs."""
    num_inputs: int
    """Promoters, or alignments, of all parts."""
    num_missing: int
    """Alignments that failed in their parts, and so are not in the whole."""


def merge_shards(
    paths: Sequence[Path], output: Path | TextIO, *, progress: Progress = SILENT
) -> MergeSummary:
    """Make the whole of all its parts, given in any order.

    paths: what commands with --shard wrote: HDF5 of results, or tables of predictions (plain or compressed).
    output: a file, which is replaced when the new one is whole; for tables also an open text file.

    Raises: BioattnError when a part is missing, given twice, of another model, input or settings, or when the
    output cannot be written; FormatError when one is damaged. Nothing is left of the output then.
    """
    parts = _complete_set(paths)
    given, first = list(parts), next(iter(parts.values()))
    missing = 0
    if not is_hdf5(given[0]):
        title = "predictions"
        if isinstance(output, Path):
            check_output(output, given)
            with text_output(output) as file:
                _merge_tables(parts, cast(TextIO, file))
        else:
            whole = io.StringIO()  # what was printed cannot be taken back
            _merge_tables(parts, whole)
            output.write(whole.getvalue())
    elif not isinstance(output, Path):
        raise BioattnError("results cannot go to standard output; give --output a name")
    else:
        title = "results"
        check_output(output, given)
        with open_hdf5(given[0]) as file:
            has_samples = "samples" in file
        if has_samples:
            missing = first.total - _merge_results(given, output, first.total, progress)
        else:
            _merge_arrays(given, output)
    return MergeSummary(title=title, parts=given, num_inputs=first.total, num_missing=missing)


def _complete_set(paths: Sequence[Path]) -> dict[Path, shards.ShardRecord]:
    """The parts in the order of their inputs, none missing, doubled or of another run. Raises: BioattnError."""
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise BioattnError(f"{twice[0]}: is given twice; give each part once")
    records = {path: _record(path) for path in paths}
    (one, first), *_ = records.items()
    by_number: dict[int, Path] = {}
    for path in paths:
        record = records[path]
        names = {*first.settings, *record.settings}
        different = sorted(name for name in names if first.settings.get(name) != record.settings.get(name))
        if different or (record.shard.count, record.total) != (first.shard.count, first.total):
            raise BioattnError(
                f"{path}: is a part of another run than {one} (different: {', '.join(different) or 'shards'}); "
                "make all parts with one model, one input and the same options"
            )
        other = by_number.setdefault(record.shard.number, path)
        if other is not path:
            raise BioattnError(f"{path}: is {record.part}, and so is {other}; give each part once")
    numbers = range(1, first.shard.count + 1)
    if missing := [f"{number:,}" for number in numbers if number not in by_number]:
        raise BioattnError(
            f"{one} is {first.part}, but of these {listed(missing, _SHOWN)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; give all parts"
        )
    ordered = {by_number[number]: records[by_number[number]] for number in numbers}
    begins = [*(record.first for record in ordered.values()), first.total]
    ends = [0, *(record.stop for record in ordered.values())]
    if begins != ends:
        raise FormatError(
            f"{one}: the parts overlap or leave gaps among {first.total:,} inputs; make them again"
        )
    return ordered


def _record(path: Path) -> shards.ShardRecord:
    record = None
    if path.is_dir():
        raise BioattnError(
            f"{path}: is a folder; shards that write folders share one --output, and need no merge"
        )
    if is_hdf5(path):
        with open_hdf5(path) as file:
            record = shards.shard_of_hdf5(path, file)
    else:
        with open_bytes(path) as text:
            is_part = text.read(len(shards.PART_START)) == shards.PART_START.encode()
        record = shards.shard_of_table(path) if is_part else None
    if record is None:
        raise BioattnError(
            f"{path}: is no part of a sharded run; give what commands with --shard wrote (FASTA files are joined "
            "by `cat`)"
        )
    return record


def _merge_tables(parts: Mapping[Path, shards.ShardRecord], output: TextIO) -> None:
    header: str | None = None
    for path, record in parts.items():
        lines = (line for number, line in read_lines(path) if number > 1)
        columns = next(lines, None)
        if header not in (None, columns) or columns is None:
            raise FormatError(f"{path}: has other columns than {next(iter(parts))}; make it again")
        if header is None:
            output.write(columns + "\n")
        header, rows = columns, 0
        for line in lines:
            rows += 1
            output.write(line + "\n")
        if rows != (wanted := record.stop - record.first) and not record.settings.get("several_rows"):
            raise FormatError(f"{path}: has {rows:,} rows for {wanted:,} inputs; copy it or make it again")


def _merge_results(parts: Sequence[Path], output: Path, total: int, progress: Progress) -> int:
    """Write the whole; returns how many samples it holds."""
    layout: FileLayout | None = None
    settings: Any = {}
    owner: dict[str, Path] = {}
    for path in parts:
        with open_hdf5(path) as file:
            if shards.UNFINISHED in file.attrs:
                raise BioattnError(f"{path}: is unfinished: repeat the command that made it with --resume")
            stored = replace(stored_layout(path, file), shard=None)
            settings = parse_json(text_attribute(file, shards.SETTINGS) or "{}", str(path))
            ids = read_samples(file, ()).ids
            for name in ids:
                if owner.setdefault(name, path) is not path:
                    raise FormatError(f"{path}: holds {name!r}, and so does {owner[name]}; make both again")
            if layout not in (None, stored):
                raise FormatError(f"{path}: its arrays are not those of the other parts; make it again")
            layout = stored
    assert layout is not None
    require_free_space(
        output, sum(path.stat().st_size for path in parts), "make room, or choose another disk"
    )
    progress.begin("merging", len(parts))
    try:
        with result_file(output, layout, total, settings=settings, keep=False) as writer:
            for path in parts:
                with open_hdf5(path) as file:
                    writer.copy(file, read_samples(file, layout.columns, layout.lists))
                progress.advance()
    finally:
        progress.end()
    return len(owner)


def _merge_arrays(parts: Sequence[Path], output: Path) -> None:
    """Join files of arrays over inputs, or over places of inputs, along their first axis."""
    with ExitStack() as files:
        read = [files.enter_context(open_hdf5(path)) for path in parts]
        whole = files.enter_context(hdf5_file(output))
        for name, value in read[0].attrs.items():
            if name not in (shards.SHARD, shards.SHARD_INPUTS, shards.SETTINGS):
                whole.attrs[name] = value
        for name, array in read[0].items():
            dtype = max((file[name].dtype for file in read), key=lambda each: each.itemsize)
            sizes = np.cumsum([0, *(len(file[name]) for file in read)])
            joined = create_array(whole, name, (int(sizes[-1]), *array.shape[1:]), dtype)
            for file, (first, last) in zip(read, pairwise(sizes.tolist()), strict=True):
                step = max(1, SLAB_BYTES * (last - first) // max(1, file[name].nbytes))
                for start in range(0, last - first, step):
                    joined[first + start : min(first + start + step, last)] = file[name][start : start + step]
