"""The kind of what `run` writes of several inputs: a folder with a folder of results for each."""

from pathlib import Path
from typing import Any

from bioattn.store.inspection import validate_members
from bioattn.store.kinds import FileKind
from bioattn.store.problems import Problem, error
from bioattn.store.shards import SHARD_FILE, read_shard_file
from bioattn.system.progress import Progress
from bioattn.text import some


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
        figures: dict[str, Any] = {}
        if (folder / SHARD_FILE).is_file():
            record, _, failed = read_shard_file(folder)
            figures = {**record.figures(), **({"failed": failed} if failed else {})}
        return {**figures, name: len(found), "alignments": some([each.name for each in found])}

    def validate(folder: Path, progress: Progress) -> list[Problem]:
        """Every result in a folder, and whether all that a part of a run names are there."""
        describe(folder)
        members = (
            each for each in folder.iterdir() if any((each / file).is_file() for file in (record, *others))
        )
        problems = validate_members(members, progress)
        if (folder / SHARD_FILE).is_file():
            names = read_shard_file(folder)[1]
            problems += [error(name, "is missing") for name in names if not (folder / name).is_dir()]
        return problems

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
        order=order,
    )
