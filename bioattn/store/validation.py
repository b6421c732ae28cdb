"""Whether a file keeps its contract, whatever kind it is."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.files import read_json, sha256_of
from bioattn.io.output_names import run_record_path
from bioattn.store.kinds import recognise
from bioattn.store.problems import Problem, Severity, error, warning
from bioattn.system.progress import Progress


def validate_file(path: Path, progress: Progress | None = None) -> list[Problem]:
    """Everything wrong with a file of bioattn, or a folder of its files; all that is stored is read.

    A file whose run record (`<name>.run.json`) names another digest gets a warning. Raises: BioattnError when the
    file cannot be opened at all.
    """
    if not path.exists():
        raise BioattnError(f"{path}: no such file or folder")
    return validate_content(path, progress) + _against_record(path)


def is_valid(problems: list[Problem]) -> bool:
    """Whether none of the problems is an error."""
    return not any(problem.severity is Severity.ERROR for problem in problems)


def validate_content(path: Path, progress: Progress | None) -> list[Problem]:
    """Everything wrong with the content of a file or folder of any kind."""
    try:
        kind = recognise(path)
        if kind.validate is not None:
            return kind.validate(path, progress)
        kind.describe(path)
        return []
    except BioattnError as problem:
        return [_of_error(path, problem)]


def validate_members(members: Iterable[Path], progress: Progress | None) -> list[Problem]:
    """Everything wrong with the content of files of a folder; places begin with the name of the file."""
    return [
        replace(problem, where=f"{path.name}{'/' if path.is_dir() else ' '}{problem.where}".rstrip(" /"))
        for path in sorted(members)
        for problem in validate_content(path, progress)
    ]


def _of_error(path: Path, problem: BioattnError) -> Problem:
    """The sentence of an error as a problem, the line in its place."""
    sentence = str(problem)
    if located := re.match(re.escape(f"{path}:") + r"(\d+): ", sentence):
        return error(f"line {located[1]}", sentence[located.end() :])
    return error("", sentence.removeprefix(f"{path}: "))


def _against_record(path: Path) -> list[Problem]:
    """Compare with the digest in the run record beside the file, if there is one."""
    record_path = run_record_path(path)
    if not (path.is_file() and record_path.is_file()):
        return []
    try:
        record = read_json(record_path)
        stored = record["output"]["sha256"]
    except (BioattnError, KeyError, TypeError):
        return [warning("", f"{record_path.name} beside it is unreadable")]
    if stored is not None and stored != sha256_of(path):
        return [warning("", f"is not the file that {record_path.name} speaks of (SHA-256 differs)")]
    return []
