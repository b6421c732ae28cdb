"""The kind of what `run` writes of several inputs: a folder with a folder of results for each."""

from pathlib import Path
from typing import Any

from bioattn.store.inspection import validate_members
from bioattn.store.kinds import FileKind, MergeKind, Part
from bioattn.store.merging import merge_folders
from bioattn.store.problems import Problem
from bioattn.store.recorded_folder import SHARD_FILE, read_shard_file, shard_figures, validate_shard_file
from bioattn.system.progress import Progress
from bioattn.text import some

_FOLDERS = MergeKind(title="results of alignments", merge=merge_folders, is_folder=True)


def several_results(
    name: str, title: str, record: str, *others: str, empty_parts: bool = False, order: int
) -> FileKind:
    """The kind of a folder whose folders each hold the file `record`.

    others: further files of a result, by which one is known that lost its record. empty_parts: whether a part of a
    sharded run that holds no result is of this kind, too.
    """

    def results(folder: Path) -> list[Path]:
        return sorted(found.parent for found in folder.glob(f"*/{record}"))

    def describe(folder: Path) -> dict[str, Any]:
        found = results(folder)
        return {**shard_figures(folder), name: len(found), "alignments": some([each.name for each in found])}

    def validate(folder: Path, progress: Progress) -> list[Problem]:
        """Every result in a folder, and whether it is the part of a run that it says it is."""
        describe(folder)
        members = (
            each for each in folder.iterdir() if any((each / file).is_file() for file in (record, *others))
        )
        problems = validate_members(members, progress)
        return problems + (validate_shard_file(folder) if (folder / SHARD_FILE).is_file() else [])

    def part(folder: Path) -> Part | None:
        if not (folder / SHARD_FILE).is_file():
            return None
        return Part(folder, _FOLDERS, read_shard_file(folder).record)

    return FileKind(
        name=name,
        title=title,
        matches=lambda candidate: (
            candidate.is_folder
            and (bool(results(candidate.path)) or (empty_parts and candidate.holds(SHARD_FILE)))
        ),
        describe=describe,
        validate=validate,
        members=results,
        part=part,
        order=order,
    )
