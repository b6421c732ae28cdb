"""A folder of results with a JSON record of its files and their digests: made, replaced, read and checked one way.

`tracks.json`, `motifs.json`, `heads.json` and `arrays.json` are such records. A folder is known by its record,
replaced only where the record lies, and whole when every file has the digest that the record gives.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json, sha256_of
from bioattn.io.folders import check_output_folder
from bioattn.store.findings import Finding, error

_BEING_WRITTEN = re.compile(r"\A\.tmp-\d+-")
"""What `bioattn.io.files.atomic_output` puts before the names that a killed process leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFolder:
    """One kind of such folders."""

    what: str
    """What it holds, in the plural."""
    format: str
    format_version: str
    record: str
    """Name of the JSON file."""
    is_own: Callable[[str], bool]
    """Whether a path below the folder, parts joined by /, is one that bioattn gives there."""
    files_of: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
    """Names and SHA-256 of the files that a record speaks of; KeyError or TypeError where it is incomplete."""

    def check_output(self, output: Path, inputs: Sequence[Path], *, force: bool) -> set[str]:
        """Refuse a folder that cannot be made; returns the names of our files that it and its like hold.

        Those of earlier runs are among them, which may have written other files, and of runs that were killed.

        Raises: SettingsError when `output` cannot name a folder or holds an input; BioattnError when it is in the
        way.
        """
        check_output_folder(output, inputs, force=force)
        if output.is_dir() and any(output.iterdir()) and not (output / self.record).is_file():
            raise BioattnError(
                f"{output}: is no folder of {self.what}, and --force replaces no other; choose another --output"
            )
        alike = (
            output,
            output.with_name(f"{output.name}.partial"),
            output.with_name(f".tmp-old-{output.name}"),
        )
        found = {
            path.relative_to(folder).with_name(_BEING_WRITTEN.sub("", path.name)).as_posix()
            for folder in alike
            if folder.is_dir()
            for path in folder.rglob("*")
        }
        return {name for name in found if self.is_own(name)} | {self.record}

    def read(self, folder: Path) -> dict[str, Any]:
        """The record. Raises: FormatError when it is none, of another major version, or names foreign files."""
        path = folder / self.record
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != self.format:
            raise FormatError(f"{path}: does not describe {self.what} of bioattn")
        version = str(content.get("format_version"))
        if version.partition(".")[0] != self.format_version.partition(".")[0]:
            raise FormatError(
                f"{path}: version {version} is not the {self.format_version} that this bioattn reads"
            )
        try:
            for name, _ in self.files_of(content):
                if not self.is_own(name):
                    raise FormatError(f"{path}: {name!r} is no name of a file of {self.what}")
        except (KeyError, TypeError, AttributeError) as problem:
            raise FormatError(f"{path}: is incomplete ({problem!r})") from problem
        return content

    def require_files(self, folder: Path, content: Mapping[str, Any], advice: str) -> list[str]:
        """Names of all files of a record; advice: how to get one that is missing.

        Raises: FormatError naming a missing one.
        """
        names = [name for name, _ in self.files_of(content)]
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            more = f" and {len(missing) - 1:,} more files" if len(missing) > 1 else ""
            raise FormatError(f"{folder}: {missing[0]}{more} named in {self.record} missing; {advice}")
        return names

    def validate(self, folder: Path) -> list[Finding]:
        """What keeps the files from being those that the record speaks of."""
        findings = []
        for name, digest in self.files_of(self.read(folder)):
            path = folder / name
            try:
                if sha256_of(path) != digest:
                    findings.append(error(name, f"is not the file that {self.record} speaks of"))
            except BioattnError as problem:
                findings.append(error(name, str(problem).removeprefix(f"{path}: ")))
        return findings
