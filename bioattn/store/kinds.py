"""The kinds of files and folders that bioattn knows, and how a path is recognised as one of them by its content.

A `FileKind` says how a file is recognised, described (`bioattn inspect`) and checked (`bioattn validate`), and
what a report and MultiQC show of it. Kinds are registered by the room or the model family that owns them, as
`FILE_KINDS` in a module `file_kinds`, which does not import torch.
"""

import codecs
import csv
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bioattn.errors import BioattnError, FormatError
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.files import decompression_errors, first_bytes, open_bytes, read_json, read_lines
from bioattn.io.hdf5 import HDF5_MAGIC, open_hdf5, text_attribute
from bioattn.system.progress import Progress
from bioattn.text import shortened

if TYPE_CHECKING:
    import pandas as pd


class Problem(NamedTuple):
    """One thing that is wrong with a file."""

    where: str
    """The dataset, field or line; empty for the file as a whole."""
    message: str
    is_error: bool = True
    """An error makes the file invalid; a warning does not."""

    def __str__(self) -> str:
        severity = "error" if self.is_error else "warning"
        return f"{severity}: {f'{shortened(self.where)}: ' if self.where else ''}{shortened(self.message)}"


_ROOMS = ("models", "checks", "interpret", "store")
"""Packages whose modules `file_kinds` register kinds; those of models depend on the families that there are."""
_HEAD_BYTES = 4096


class Candidate:
    """A path that is to be recognised. Each part of its content is read once, when a kind first asks for it."""

    def __init__(self, path: Path) -> None:
        """Raises: BioattnError for a device or pipe: it can be read once at most, and may never end."""
        self.path = path
        self.is_folder = path.is_dir()
        if path.exists() and not self.is_folder and not path.is_file():
            raise BioattnError(f"{path}: is a device or pipe; give a file")

    @cached_property
    def magic(self) -> bytes:
        """The first four bytes of a file as they lie on disk; empty for a folder. Raises: BioattnError."""
        return b"" if self.is_folder else first_bytes(self.path, 4)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file, unpacked; empty for a folder.

        Raises: BioattnError when the file cannot be read; FormatError when its compression is damaged.
        """
        if self.is_folder:
            return b""
        with open_bytes(self.path) as file, decompression_errors(self.path):
            return file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8)

    @cached_property
    def hdf5_format(self) -> str | None:
        """The attribute `format` of an HDF5 file; None for any other file. Raises: FormatError when damaged."""
        if not self.head.startswith(HDF5_MAGIC):
            return None
        with open_hdf5(self.path) as file:
            return text_attribute(file, "format")

    @cached_property
    def json(self) -> Any:
        """The content of a JSON file; None for any other file. Raises: FormatError when it is damaged."""
        return read_json(self.path) if self.head.lstrip().startswith((b"{", b"[")) else None

    @cached_property
    def columns(self) -> list[str]:
        """The cells of the first line of a file with tabs or commas in it; empty for any other file."""
        head = self.head
        if (
            not head.strip()
            or b"\0" in head
            or not any(mark in head.splitlines()[0] for mark in (b"\t", b","))
        ):
            return []
        first = next(read_lines(self.path))[1]
        return first.split("\t") if "\t" in first else next(csv.reader([first]))

    def holds(self, *names: str) -> bool:
        """Whether the path is a folder with files of all these names."""
        return self.is_folder and all((self.path / name).is_file() for name in names)

    def index(self, name: str) -> Mapping[str, Any]:
        """The JSON object in the file `name` of a folder; empty where the folder has no such object."""
        content = read_json(self.path / name) if self.holds(name) else None
        return content if isinstance(content, dict) else {}


@dataclass(frozen=True, slots=True)
class Sample:
    """What one result says in a MultiQC report."""

    name: str
    sections: Mapping[str, Mapping[str, Any]]
    """Figures by name for each section; of line plots, points by the name of a line."""


def sample_name(path: Path) -> str:
    """How MultiQC calls the sample of a file: the name up to its first dot; the whole name of a folder."""
    path = path.absolute()
    return path.name if path.is_dir() else path.name.lstrip(".").split(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """What a report shows of a result that it has no section of its own for."""

    title: str
    sentences: Sequence[str] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | int | float | None]] = ()


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a result is to a report."""

    slot: str
    """Under which name the report looks for it: a field of `bioattn.report.inputs.ReportInputs`."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Some of them stand in the list of what the report was made from."""
    table: ResultTable | None = None
    """What is shown of it, for the slot `results`."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """One kind of file or folder. Functions that are None: the kind does not have that ability."""

    name: str
    """How JSON of `bioattn inspect` calls it."""
    title: str
    matches: Callable[[Candidate], bool]
    describe: Callable[[Path], dict[str, Any]]
    """Main figures, in the order worth reading. Raises: FormatError when the file is damaged."""
    read: Callable[[Path], Any] | None = None
    """What is in a file, as `bioattn.open` gives it. None: not for reading."""
    _: KW_ONLY
    is_model: bool = False
    """Whether it is what a family loads a model from."""
    order: int = 0
    """Kinds of smaller numbers are asked first; kinds of one number exclude each other."""
    validate: Callable[[Path, Progress], list[Problem]] | None = None
    """All problems of a file. None: a file that can be described is valid."""
    members: Callable[[Path], list[Path]] | None = None
    """The results in a folder that holds several of them."""
    report: Callable[[Path], ReportInput | None] | None = None
    """What a report takes a file as; None for a file of which it shows nothing."""
    multiqc: Callable[[Path], Sample] | None = None
    """What MultiQC shows of a file. Raises: BioattnError when there is nothing; FormatError when it is damaged."""


def shown_as(slot: str, describe: Callable[[Path], dict[str, Any]]) -> Callable[[Path], ReportInput]:
    """A file that a report takes as `slot`, with its main figures."""
    return lambda path: ReportInput(slot, describe(path))


def hdf5(name: str) -> Callable[[Candidate], bool]:
    """Match HDF5 files by their attribute `format`."""
    return lambda candidate: candidate.hdf5_format == name


def json_object(name: str) -> Callable[[Candidate], bool]:
    """Match JSON files by their entry `format`."""
    return lambda candidate: isinstance(candidate.json, dict) and candidate.json.get("format") == name


def dataset_kind(
    name: str,
    title: str,
    container: DatasetKind,
    describe: Callable[[Path], dict[str, Any]],
    read: Callable[[Path], Any],
    validate: Callable[[Path], list[str]] | None = None,
    **abilities: Any,
) -> FileKind:
    """Datasets. validate: gives sentences, which begin with the path. abilities: further fields of the kind."""
    if validate is not None:
        abilities["validate"] = lambda path, _: [
            Problem("", sentence.removeprefix(f"{path}: ")) for sentence in validate(path)
        ]
    return FileKind(name, title, hdf5(container.format), describe, read, **abilities)


def folder_with(*names: str) -> Callable[[Candidate], bool]:
    """Match folders by the files in them."""
    return lambda candidate: candidate.holds(*names)


def read_table(path: Path) -> "pd.DataFrame":
    """A table of tabs or commas. A first column `gene_id` that names every gene once is the index.

    Raises: FormatError when it is no table.
    """
    import pandas as pd

    with open_bytes(path) as file, decompression_errors(path):
        separator = "\t" if "\t" in next(read_lines(path))[1] else ","
        try:
            table = pd.read_csv(file, sep=separator, float_precision="round_trip")
        except (ValueError, pd.errors.ParserError) as error:
            raise FormatError(f"{path}: cannot be read as a table: {error}") from error
    first = table.columns[0]
    return table.set_index(first) if first == "gene_id" and table[first].is_unique else table


def starts_with(*starts: bytes) -> Callable[[Candidate], bool]:
    """Match files by their first bytes, unpacked."""
    return lambda candidate: candidate.head.startswith(starts)


def file_kinds() -> list[FileKind]:
    """All kinds, in the order in which they are asked."""
    rooms = [importlib.import_module(f"bioattn.{room}.file_kinds") for room in _ROOMS]
    kinds = [*rooms[0].file_kinds(), *(kind for room in rooms[1:] for kind in room.FILE_KINDS)]
    return sorted(kinds, key=lambda kind: kind.order)


def find_kind(candidate: Candidate) -> FileKind | None:
    """The kind of a file or folder; None where bioattn knows no such kind.

    Raises: BioattnError when it cannot be read; FormatError when it is damaged.
    """
    return next((kind for kind in file_kinds() if kind.matches(candidate)), None)


def recognise(path: Path) -> FileKind:
    """The kind of a file or folder, by its content.

    Raises: BioattnError when it cannot be read or is of no known kind; FormatError when it is damaged.
    """
    candidate = Candidate(path)
    if (kind := find_kind(candidate)) is not None:
        return kind
    if candidate.is_folder:
        raise BioattnError(
            f"{path}: is a folder that bioattn did not make (no model, prediction, tracks, motifs, heads, "
            "attribution arrays, simulation or attention under way)"
        )
    if candidate.head.startswith(HDF5_MAGIC):
        raise BioattnError(f"{path}: is HDF5 but not written by bioattn (no known 'format' attribute)")
    if not candidate.head.strip():
        raise FormatError(f"{path}: is empty")
    raise BioattnError(f"{path}: is none of the files bioattn reads or writes")
