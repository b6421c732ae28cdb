"""A folder of results with a JSON record of what it holds: made, replaced and read one way.

`tracks.json`, `motifs.json`, `heads.json` and `arrays.json` are such records. A folder is known by its record and
replaced only where the record lies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json, write_json
from bioattn.io.folders import check_output_folder
from bioattn.store.kinds import FileKind, folder_with


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
    figures: Callable[[Mapping[str, Any]], dict[str, Any]]
    """What `bioattn inspect` says of a record; KeyError or TypeError where it is incomplete."""

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

    def write(self, folder: Path, content: Mapping[str, Any]) -> None:
        """Write the record, with the names of all files that lie in the folder."""
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        write_json(folder / self.record, {**self.header, **content, "files": files})

    def describe(self, folder: Path) -> dict[str, Any]:
        """The main figures.

        Raises: FormatError when the record is none, damaged or of another major version, or a file is missing.
        """
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
            missing = [name for name in content["files"] if not (folder / name).is_file()]
            if missing:
                raise FormatError(
                    f"{folder}: {missing[0]} is missing, which {self.record} names; make it again"
                )
            return self.figures(content)
        except (KeyError, TypeError, AttributeError) as problem:
            raise FormatError(f"{path}: is incomplete ({problem!r})") from problem

    def kind(self, name: str, title: str, **abilities: Any) -> FileKind:
        """Folders of this kind for the registry. abilities: further fields of the kind."""
        return FileKind(
            name=name,
            title=title,
            matches=folder_with(self.record),
            describe=self.describe,
            **abilities,
        )


def without(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The entries of a record but those of these names."""
    return {name: value for name, value in content.items() if name not in names}
