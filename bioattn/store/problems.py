"""What is wrong with a file."""

from dataclasses import dataclass
from enum import StrEnum

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


def warning(where: str, message: str) -> Problem:
    """A problem worth knowing."""
    return Problem(Severity.WARNING, shortened(where), shortened(message))
