"""What is wrong with a file."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bioattn.io.seal import check_seal
from bioattn.text import shortened


class Severity(StrEnum):
    """An error makes the file invalid; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file."""

    severity: Severity
    where: str
    """The dataset, field or line; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where + ': ' if self.where else ''}{self.message}"


def error(where: str, message: str) -> Problem:
    """A problem that makes the file invalid."""
    return Problem(Severity.ERROR, shortened(where), shortened(message))


def seal_warnings(path: Path) -> list[Problem]:
    """A warning of an HDF5 file without a seal. Raises: FormatError when it is damaged."""
    what = "has no seal, so another program changed or copied it; damage to it cannot be seen"
    return [] if check_seal(path) else [warning("", what)]


def warning(where: str, message: str) -> Problem:
    """A problem worth knowing."""
    return Problem(Severity.WARNING, shortened(where), shortened(message))
