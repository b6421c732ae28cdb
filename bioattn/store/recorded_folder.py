"""A folder of results with a JSON record of its files and their digests: made, replaced, read and checked one way.

`tracks.json`, `motifs.json`, `heads.json` and `arrays.json` are such records. A folder is known by its record,
replaced only where the record lies, and whole when every file has the digest that the record gives.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json, sha256_of
from bioattn.io.folders import check_output_folder, is_ours
from bioattn.store.kinds import FileKind, Problem, folder_with


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFolder:
    """One kind of such folders."""

    what: str
    """What it holds, in the plural."""
    format: str
    format_version: str
    record: str
    own_names: tuple[str, ...]
    """Names of the files beside it, or shell patterns (`logos/*.svg`)."""
    files_of: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
    """Names and SHA-256 of the files that a record speaks of; KeyError or TypeError where it is incomplete."""
    figures: Callable[[Mapping[str, Any]], dict[str, Any]]
    """What `bioattn inspect` says of a record; errors as of `files_of`."""
    advice: str

    @property
    def header(self) -> dict[str, Any]:
        """The first entries of a record."""
        return {
            "format": self.format,
            "format_version": self.format_version,
            "generated_by": f"bioattn {__version__}",
        }

    def check_output(self, output: Path, inputs: Sequence[Path], *, force: bool) -> set[str]:
        """Refuse a folder that cannot be made; returns the names of our files, as `atomic_folder` takes them.

        Raises: BioattnError as `check_output_folder`; for a folder without the record.
        """
        check_output_folder(output, inputs, force=force)
        if output.is_dir() and any(output.iterdir()) and not (output / self.record).is_file():
            raise BioattnError(
                f"{output}: is no folder of {self.what}, and --force replaces no other; choose another --output"
            )
        return {self.record, *self.own_names}

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
                if not is_ours(name, self.own_names):
                    raise FormatError(f"{path}: {name!r} is no name of a file of {self.what}")
        except (KeyError, TypeError, AttributeError) as problem:
            raise FormatError(f"{path}: is incomplete ({problem!r})") from problem
        return content

    def describe(self, folder: Path) -> dict[str, Any]:
        """The main figures of a folder. Raises: FormatError for a damaged record or a missing file."""
        content = self.read(folder)
        missing = [name for name, _ in self.files_of(content) if not (folder / name).is_file()]
        if missing:
            more = f" and {len(missing) - 1:,} more files" if len(missing) > 1 else ""
            raise FormatError(f"{folder}: {missing[0]}{more} named in {self.record} missing; {self.advice}")
        try:
            return self.figures(content)
        except (KeyError, TypeError, AttributeError) as problem:
            raise FormatError(f"{folder / self.record}: is incomplete ({problem!r})") from problem

    def validate(self, folder: Path) -> list[Problem]:
        """What keeps the files from being those that the record speaks of."""
        self.describe(folder)
        problems = []
        for name, digest in self.files_of(self.read(folder)):
            path = folder / name
            try:
                if sha256_of(path) != digest:
                    problems.append(Problem(name, f"is not the file that {self.record} speaks of"))
            except BioattnError as problem:
                problems.append(Problem(name, str(problem).removeprefix(f"{path}: ")))
        return problems

    def kind(self, name: str, title: str, **abilities: Any) -> FileKind:
        """Folders of this kind for the registry. abilities: further fields of the kind."""
        return FileKind(
            name=name,
            title=title,
            matches=folder_with(self.record),
            describe=self.describe,
            validate=lambda folder, _: self.validate(folder),
            **abilities,
        )


def without(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The entries of a record but those of these names."""
    return {name: value for name, value in content.items() if name not in names}
