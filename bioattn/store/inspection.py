"""What a file or folder is, by its content and not by its name, and whether it keeps its contract."""

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError
from bioattn.store.kinds import FileKind, Problem, recognise
from bioattn.system.progress import SILENT, Progress
from bioattn.text import shortened, some


@dataclass(frozen=True, slots=True)
class Description:
    """A kind of file and its main figures, in the order worth reading."""

    kind: str
    title: str
    figures: dict[str, Any]


def inspect_file(path: Path) -> Description:
    """What `path` is and its main figures.

    Raises: BioattnError when it cannot be read or is nothing that bioattn knows; FormatError when it is of a known
    kind but damaged.
    """
    kind = recognise(path)
    return Description(kind.name, kind.title, kind.describe(path))


def validate_file(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with a file of bioattn, or a folder of its files; all that is stored is read.

    Raises: BioattnError when there is no such file.
    """
    if not path.exists():
        raise BioattnError(f"{path}: no such file or folder")
    return validate_content(path, progress)


def is_valid(problems: list[Problem]) -> bool:
    """Whether none of the problems is an error."""
    return not any(problem.is_error for problem in problems)


def validate_content(path: Path, progress: Progress) -> list[Problem]:
    """Everything wrong with the content of a file or folder of any kind."""
    try:
        kind = recognise(path)
        if kind.validate is not None:
            return kind.validate(path, progress)
        kind.describe(path)
        return []
    except BioattnError as problem:
        sentence = str(problem)
        if located := re.match(re.escape(f"{path}:") + r"(\d+): ", sentence):
            return [Problem(f"line {located[1]}", sentence[located.end() :])]
        return [Problem("", sentence.removeprefix(f"{path}: "))]


def validate_members(members: Iterable[Path], progress: Progress) -> list[Problem]:
    """Everything wrong with the content of files of a folder; places begin with the name of the file."""
    return [
        problem._replace(where=f"{path.name}{'/' if path.is_dir() else ' '}{problem.where}".rstrip(" /"))
        for path in sorted(members)
        for problem in validate_content(path, progress)
    ]


_KEYED_BY_NAME = frozenset({"failed", "inputs", "outputs", "settings", "sites", "chains"})
"""Figures whose entries have names of the user's or of a file's: shown as they are."""


def as_text(description: Description, name: str) -> str:
    """Lines `figure: value` for people."""
    lines = [f"{name}: {description.title}"]
    for key, value in description.figures.items():
        lines += _lines(key.replace("_", " "), value, "  ", named=key in _KEYED_BY_NAME)
    return "\n".join(map(shortened, lines))


def as_json(description: Description) -> str:
    return json.dumps({"kind": description.kind, **description.figures}, indent=2)


def _lines(key: str, value: Any, indent: str, *, named: bool = False) -> list[str]:
    """named: the entries of `value` have names that are shown as they are."""
    if isinstance(value, dict) and set(value) == {"count", "first"}:
        return [f"{indent}{key}: {value['count']:,} ({', '.join(map(str, value['first']))}, …)"]
    if isinstance(value, dict):
        value = {k if named or "." in k else k.replace("_", " "): entry for k, entry in value.items()}
    if isinstance(value, dict) and value and all(isinstance(v, int) for v in value.values()):
        return [f"{indent}{key}: " + ", ".join(f"{k} {v:,}" for k, v in value.items())]
    if isinstance(value, dict) and value:
        return [
            f"{indent}{key}:",
            *(line for k, v in value.items() for line in _lines(str(k), v, indent + "  ")),
        ]
    if key == "command" and isinstance(value, list):
        return [f"{indent}{key}: {shlex.join(map(str, value))}"]
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        rows = (
            ", ".join(f"{name.replace('_', ' ')} {cell}" for name, cell in each.items()) for each in value
        )
        return [f"{indent}{key}:", *(f"{indent}  {row}" for row in rows)]
    if isinstance(value, list | dict):
        return [f"{indent}{key}: {', '.join(map(str, value)) or 'none'}"]
    if isinstance(value, bool):
        return [f"{indent}{key}: {'yes' if value else 'no'}"]
    if value is None:
        return [f"{indent}{key}: {'none, it is no file' if key == 'sha256' else 'not given'}"]
    return [f"{indent}{key}: {value:,}" if isinstance(value, int) else f"{indent}{key}: {value}"]


def several_results(name: str, title: str, record: str, *, order: int) -> FileKind:
    """The kind of a folder whose folders each hold the file `record`."""

    def results(folder: Path) -> list[Path]:
        return sorted(found.parent for found in folder.glob(f"*/{record}"))

    def describe(folder: Path) -> dict[str, Any]:
        found = results(folder)
        return {name: len(found), "alignments": some([each.name for each in found])}

    return FileKind(
        name=name,
        title=title,
        matches=lambda candidate: candidate.is_folder and bool(results(candidate.path)),
        describe=describe,
        validate=lambda folder, progress: validate_members(results(folder), progress),
        members=results,
        order=order,
    )
