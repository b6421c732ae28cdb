"""One thing found out about the surroundings, and whether anything is to be done about it."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What a diagnosis means for work with bioattn."""

    OK = "ok"
    ABSENT = "absent"
    """Not there and not needed."""
    WARNING = "warning"
    """Work goes on, but slower, or some of it fails."""
    ERROR = "error"
    """Something that is needed is broken."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found under one name."""

    topic: str
    """What kind of thing it is: `device`, `threads`, …; diagnoses of a topic stand together."""
    name: str
    """What was looked at; no two diagnoses of a topic share it."""
    text: str
    """What was found, for people."""
    value: str | int | float | bool | None = None
    """The same for programs: a version, a number of bytes or cores, a path; None where there is none."""
    status: Status = Status.OK
    advice: str = ""
    """What to do about it; always there with a warning or an error."""
