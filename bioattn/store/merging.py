"""One file or folder of the parts of a sharded run: the bytes of the run by one process, or a refusal."""

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TextIO, cast

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError, Interrupted
from bioattn.io.files import atomic_output, check_output, text_output, unreadable
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.io.hdf5_input import open_hdf5
from bioattn.store.kinds import Candidate, Merged, MergeTask, Part, find_kind
from bioattn.store.parts import PartFile, require_free_space, write_whole
from bioattn.store.prediction_table import open_part
from bioattn.store.recorded_folder import SHARD_FILE, ShardFolder, read_shard_file
from bioattn.store.result_validation import sample_problems
from bioattn.store.stored import read_samples, stored_layout
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import stop_on_signals
from bioattn.text import human_bytes, listed


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
    failed: dict[str, str]
    """Their names and why, where the parts say so."""


def merge_parts(
    paths: Sequence[Path], output: Path | TextIO, *, force: bool = False, progress: Progress = SILENT
) -> MergeSummary:
    """Make the whole that one process would have made, byte for byte, of all its parts, in any order.

    paths: outputs of commands with --shard: attention or attribution HDF5, tables of predictions (plain or
    compressed), or folders of results. output: a file that is replaced when the new one is whole; a folder, where
    parts are folders (force: replace one); tables also to an open text file. Memory stays flat.

    Raises: BioattnError when a part is missing, given twice, of another model, input, settings or version, or when
    the output cannot be written; FormatError when one is damaged; Interrupted. Nothing is left of the output then.
    """
    parts = complete_set(paths)
    first = parts[0]
    given = [part.path for part in parts]
    if isinstance(output, Path) and first.kind.is_folder:
        check_output_folder(output, given, force=force)
    elif isinstance(output, Path):
        check_output(output, given)
    elif not first.kind.is_text:
        raise BioattnError(
            f"{first.path}: {first.kind.title} cannot go to standard output; give --output a name"
        )
    try:
        with stop_on_signals() as request:
            task = MergeTask(parts=parts, output=output, progress=progress, check=request.check)
            merged = first.kind.merge(task)
    except Interrupted as stop:
        raise Interrupted(f"{stop}; nothing was written, run again", stop.exit_code) from stop
    return MergeSummary(
        title=first.kind.title,
        parts=given,
        num_inputs=first.record.total,
        num_missing=first.record.total - merged.inputs,
        failed=merged.failed,
    )


_SHOWN = 8
"""Numbers of missing parts in a message."""


def complete_set(paths: Sequence[Path]) -> list[Part]:
    """The parts at `paths` (any order) in the order of their inputs, none missing, doubled or of another run.

    Raises: BioattnError, one sentence that names the file or the numbers; FormatError for a damaged one.
    """
    places: dict[Path, Path] = {}
    for path in paths:
        if places.setdefault(path.resolve(), path) is not path:
            raise BioattnError(f"{path}: is given twice; give each part once")
    parts = [_read(path) for path in paths]
    first = parts[0]
    for part in parts[1:]:
        _require_same_run(first, part)
    _require_this_version(first)
    by_number: dict[int, Part] = {}
    for part in parts:
        other = by_number.setdefault(part.record.shard.number, part)
        if other is not part:
            raise BioattnError(
                f"{part.path}: is {part.record.part}, and so is {other.path}; give each part once"
            )
    count = first.record.shard.count
    if missing := [number for number in range(1, count + 1) if number not in by_number]:
        raise BioattnError(
            f"{first.path} is {first.record.part}, but {_numbers(missing)} {'is' if len(missing) == 1 else 'are'} "
            "missing; give all parts"
        )
    ordered = [by_number[number] for number in range(1, count + 1)]
    for part, following in pairwise(ordered):
        if part.record.stop != following.record.first:
            raise FormatError(
                f"{part.path} has inputs {part.record.inputs} and {following.path}, the next part, "
                f"{following.record.inputs}, so one of them is damaged; `bioattn validate` says which"
            )
    if (ordered[0].record.first, ordered[-1].record.stop) != (0, first.record.total):
        raise FormatError(
            f"{ordered[0].path} to {ordered[-1].path}: are not all of {first.record.total:,} inputs, so one of "
            "them is damaged; `bioattn validate` says which"
        )
    return ordered


def _read(path: Path) -> Part:
    candidate = Candidate(path)
    kind = find_kind(candidate)
    if kind is not None and kind.part is not None and (part := kind.part(path)) is not None:
        return part
    if candidate.is_folder:
        raise BioattnError(
            f"{path}: has no {SHARD_FILE}, so it is no finished part; end the command that makes it, with "
            "--shard and --resume"
        )
    raise BioattnError(
        f"{path}: is no part of a sharded run; give what commands with --shard wrote (FASTA files are joined by "
        "`cat`)"
    )


def _require_same_run(first: Part, part: Part) -> None:
    if part.kind != first.kind:
        raise BioattnError(
            f"{part.path}: holds {part.kind.title}, {first.path} {first.kind.title}; merge them apart"
        )
    if different := first.record.differing(part.record):
        raise BioattnError(
            f"{part.path}: is a part of another run than {first.path} (different: {', '.join(different)}); "
            "make all parts with one model, one input and the same options"
        )
    if (part.record.shard.count, part.record.total) != (first.record.shard.count, first.record.total):
        raise BioattnError(f"{part.path}: is {part.record.part}, but {first.path} is {first.record.part}")


def _require_this_version(part: Part) -> None:
    made_by, ours = part.record.job.get("generated_by"), f"bioattn {__version__}"
    if made_by != ours:
        raise BioattnError(
            f"{part.path}: was made by {made_by}, and this is {ours}, which need not give the same bytes; "
            "merge with the version that made the parts"
        )


def _numbers(missing: Sequence[int]) -> str:
    if len(missing) == 1:
        return f"part {missing[0]:,}"
    return f"parts {listed([f'{number:,}' for number in missing], _SHOWN)}"


_LINES_AT_ONCE = 256


def merge_tables(task: MergeTask) -> Merged:
    """Write the whole table to a file, plain or compressed by its name, or to an open text file.

    Raises: FormatError naming a part that is cut short or damaged, which is known at its end only.
    """
    if isinstance(task.output, Path):
        with text_output(task.output) as file:
            _write(task, cast(TextIO, file))
    else:
        # What was printed cannot be taken back, so all parts are read through before.
        _write(task, None)
        _write(task, task.output)
    return Merged(task.parts[0].record.total)


def _write(task: MergeTask, file: TextIO | None) -> None:
    """Write all parts to a file, or only read them."""
    parts, progress = task.parts, task.progress
    progress.begin("merging" if file is not None else "checking", parts[0].record.total)
    header: str | None = None
    try:
        for part in parts:
            with open_part(part.path) as table:
                if header is None:
                    header = table.header
                    if file is not None:
                        file.write(header + "\n")
                if table.header != header:
                    raise FormatError(f"{part.path}: has other columns than {parts[0].path}; make it again")
                for number, line in enumerate(table.rows()):
                    if number % _LINES_AT_ONCE == 0:
                        task.check()
                    if file is not None:
                        file.write(line + "\n")
                    progress.advance()
    finally:
        progress.end()


def merge_result_files(task: MergeTask) -> Merged:
    """Put the samples of all parts, in order, into one file of results.

    Raises: FormatError naming a part that is damaged; BioattnError when the disk is full, or no sample is in any
    part.
    """
    parts, output = task.parts, task.path
    size = sum(part.path.stat().st_size for part in parts)
    require_free_space(output, size, human_bytes(size), "make room, or choose another disk")
    files, layouts = [], []
    first: dict[str, Path] = {}
    for part in parts:
        with open_hdf5(part.path, sealed=True) as file:
            layout = replace(stored_layout(part.path, file), shard=None)
            samples = read_samples(file, layout.columns)
            for problem in sample_problems(file, layout, samples):
                raise FormatError(
                    f"{part.path}: {problem.where}: {problem.message}; copy it or make it again"
                )
        wanted = part.record.stop - part.record.first
        if len(samples) > wanted or (len(samples) < wanted and not part.record.may_lack_samples):
            raise FormatError(
                f"{part.path}: holds {len(samples):,} samples for {wanted:,} inputs; make it again"
            )
        for name in samples.ids:
            if first.setdefault(name, part.path) is not part.path:
                raise FormatError(f"{part.path}: holds {name!r}, and so does {first[name]}; make both again")
        files.append(PartFile(part.path, len(samples)))
        if len(samples) or not any(group.per_sample for group in layout.groups):
            layouts.append((part.path, layout))
    if not layouts:
        raise FormatError(f"{parts[0].path}: neither this part nor any other holds a sample; all failed")
    layout = layouts[0][1]
    for path, other in layouts[1:]:
        if other != layout:
            raise FormatError(f"{path}: its arrays are not of the shapes of the other parts; make it again")
    with atomic_output(output) as temporary:
        write_whole(
            temporary,
            layout,
            files,
            lambda _: nullcontext(),
            on_block=lambda _: task.check(),
            progress=task.progress,
        )
    return Merged(sum(file.num_samples for file in files))


_BLOCK = 1 << 20


def merge_folders(task: MergeTask) -> Merged:
    """Copy all folders of results into one; `failed` names the inputs that failed in their parts.

    Raises: BioattnError when the output exists, or the disk is full; FormatError naming a file that is missing or
    not what was written.
    """
    parts, output, progress = task.parts, task.path, task.progress
    found = [(part, read_shard_file(part.path)) for part in parts]
    _require_distinct(found)
    names = {f"{name}/{file}" for _, each in found for name, files in each.files.items() for file in files}
    size = sum(_size(part.path / name) for part, each in found for name in each.files)
    require_free_space(output, size, human_bytes(size), "make room, or choose another disk")
    progress.begin("copying", sum(len(each.files) for _, each in found))
    try:
        with atomic_folder(output, names | _alike(output, names)) as folder:
            for part, each in found:
                for name, files in each.files.items():
                    (folder / name).mkdir()
                    for file, digest in files.items():
                        task.check()
                        _copy(part.path / name / file, folder / name / file, digest)
                    progress.advance()
    finally:
        progress.end()
    failed = {name: reason for _, each in found for name, reason in each.failed.items()}
    return Merged(parts[0].record.total - len(failed), failed)


def _require_distinct(found: Sequence[tuple[Part, ShardFolder]]) -> None:
    """Raises: FormatError when two parts have a result of one name, or a part not as many as inputs."""
    first: dict[str, Path] = {}
    for part, each in found:
        for name in [*each.files, *each.failed]:
            if name in first:
                raise FormatError(f"{part.path}: holds {name!r}, and so does {first[name]}; make both again")
            first[name] = part.path
        number, wanted = len(each.files) + len(each.failed), part.record.stop - part.record.first
        if number != wanted:
            raise FormatError(
                f"{part.path}: {SHARD_FILE} names {number:,} results for {wanted:,} inputs; make it again"
            )


def _alike(output: Path, names: set[str]) -> set[str]:
    """What an earlier run with other inputs left in `output`, by the names of the files."""
    ours = {name.rpartition("/")[2] for name in names}
    return {
        path.relative_to(output).as_posix()
        for path in output.glob("*/*")
        if path.name in ours and path.is_file()
    }


def _size(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error


def _copy(source: Path, target: Path, wanted: str) -> None:
    digest = hashlib.sha256()
    try:
        file = source.open("rb")
    except OSError as error:
        raise unreadable(source, error) from error
    with file, target.open("xb") as copy:
        while block := file.read(_BLOCK):
            digest.update(block)
            copy.write(block)
    if digest.hexdigest() != wanted:
        raise FormatError(
            f"{source}: is not the file that {SHARD_FILE} speaks of (SHA-256 differs); copy it or make it again"
        )
