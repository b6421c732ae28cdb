"""The file that says which shard a folder of results is: `shard.json`, beside a folder for each alignment.

It is written last and names every file with its digest, so that a folder with it is whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json, sha256_of, write_json
from bioattn.store.problems import Problem, error
from bioattn.store.recorded_folder import changed_files
from bioattn.store.shard_record import ShardRecord, parse_record

SHARD_FILE = "shard.json"
FOLDER_JOB = "bioattn-predictions-folders"
"""The format that the job of a part gives."""
SHARD_FORMAT, _VERSION = "bioattn-shard", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFolder:
    """What `shard.json` says."""

    record: ShardRecord
    files: Mapping[str, Mapping[str, str]]
    """SHA-256 by file by folder, both in the order of the run."""
    failed: Mapping[str, str]
    """Inputs without a result, and why."""


def write_shard_file(
    output: Path, record: ShardRecord, folders: Mapping[str, Path], failed: Mapping[str, str]
) -> None:
    """Write it for the folders of results in `output`, by name."""
    files = {
        name: {path.name: sha256_of(path) for path in sorted(folder.iterdir())}
        for name, folder in folders.items()
    }
    content = {"format": SHARD_FORMAT, "format_version": _VERSION, **record.as_json()}
    write_json(output / SHARD_FILE, {**content, "files": files, "failed": dict(failed)})


def read_shard_file(folder: Path) -> ShardFolder:
    """What the file in a folder says.

    Raises: BioattnError when there is none; FormatError when it is damaged, newer, or names files elsewhere.
    """
    path = folder / SHARD_FILE
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != SHARD_FORMAT:
        raise FormatError(f"{path}: does not say which shard the folder is; make it again")
    if content.get("format_version") != _VERSION:
        raise FormatError(
            f"{path}: version {content.get('format_version')} is not the {_VERSION} that this bioattn reads"
        )
    files, failed = content.get("files"), content.get("failed")
    if not (isinstance(files, dict) and isinstance(failed, dict) and all(map(_is_text, failed.items()))):
        raise FormatError(f"{path}: is incomplete (files, failed); make it again")
    for name, digests in files.items():
        if not (isinstance(digests, dict) and digests and all(map(_is_text, digests.items()))):
            raise FormatError(f"{path}: does not name the files of {name!r}; make it again")
        for plain in (name, *digests):
            if plain in ("", ".", "..") or "/" in plain or "\\" in plain or "\0" in plain:
                raise FormatError(f"{path}: {plain!r} is no name of a file or folder in it; make it again")
    return ShardFolder(record=parse_record(content, str(path)), files=files, failed=failed)


def shard_figures(folder: Path) -> dict[str, Any]:
    """For `inspect`; nothing where the folder is no part."""
    if not (folder / SHARD_FILE).is_file():
        return {}
    found = read_shard_file(folder)
    return {**found.record.figures(), **({"failed": dict(found.failed)} if found.failed else {})}


def validate_shard_file(folder: Path) -> list[Problem]:
    """Which files are missing, or not those that `shard.json` speaks of."""
    try:
        found = read_shard_file(folder)
    except FormatError as problem:
        return [error(SHARD_FILE, str(problem).removeprefix(f"{folder / SHARD_FILE}: "))]
    digests = [
        (f"{name}/{file}", value) for name, files in found.files.items() for file, value in files.items()
    ]
    return changed_files(folder, digests, SHARD_FILE)


def _is_text(entry: tuple[Any, Any]) -> bool:
    return isinstance(entry[1], str)
