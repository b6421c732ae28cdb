"""Putting parts of a folder of results together: a folder for each input, each file compared with its digest."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.io.files import unreadable
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.store.merging.part import Merged, MergeTask, Part
from bioattn.store.part_folder import require_free_space
from bioattn.store.shard_folder import SHARD_FILE, ShardFolder, read_shard_file
from bioattn.text import human_bytes

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
    check_output_folder(output, force=task.force)
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
