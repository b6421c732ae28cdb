"""What a person sees while a command runs: messages and progress on stderr, never on stdout."""

import io
import json
import logging
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TextIO

from bioattn.wording import printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

LOGGER = logging.getLogger("bioattn")
PLAIN_INTERVAL_SECONDS = 10.0


class LogFormat(StrEnum):
    """How messages are written."""

    TEXT = "text"
    JSON = "json"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(
            {
                "time": round(record.created, 3),
                "level": record.levelname.lower(),
                "event": record.getMessage(),
            }
        )


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        return prefix + printable(record.getMessage())


class Reporter:
    """Messages (through the `bioattn` logger) and progress of one command."""

    def __init__(
        self,
        *,
        quiet: bool,
        verbose: bool,
        log_format: LogFormat,
        arguments: Sequence[str] = (),
    ) -> None:
        self.quiet = quiet
        self.command = ["bioattn", *arguments]
        """The command line as it was typed, for run records."""
        self.log_format = log_format
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonFormatter() if log_format is LogFormat.JSON else _TextFormatter())
        LOGGER.handlers[:] = [handler]
        if sys.stdout is not None and sys.stdout.isatty():
            sys.stdout = PlainTerminal(sys.stdout)
        LOGGER.propagate = False
        LOGGER.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)

    def say(self, message: str) -> None:
        """Tell the user something on stderr (not with --quiet)."""
        LOGGER.info(message)

    def warn(self, message: str) -> None:
        """Warn the user on stderr, also with --quiet."""
        LOGGER.warning(message)

    def progress(self) -> "ProgressBar | ProgressLines":
        """A bar on a terminal, otherwise a line now and then; nothing with --quiet."""
        if sys.stderr.isatty() and not self.quiet and self.log_format is LogFormat.TEXT:
            return ProgressBar()
        return ProgressLines()


class PlainTerminal(io.TextIOBase):
    """A terminal that shows control characters instead of obeying them; what goes to files and pipes is data."""

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal

    def write(self, text: str, /) -> int:
        """Show text."""
        self._terminal.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Have it shown now."""
        self._terminal.flush()

    def fileno(self) -> int:
        """Of the terminal."""
        return self._terminal.fileno()

    def isatty(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """Yes."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the terminal."""
        return self._terminal.encoding


class ProgressBar:
    """A rich progress bar on stderr, gone when the work ends."""

    def __init__(self) -> None:
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def begin(self, description: str, total: int | None) -> None:
        """Show a bar of `total` steps."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.end()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(printable(description), total=total, status="")
        self._bar.start()

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """Move the bar and show `status` beside it."""
        if self._bar is None or self._task is None:
            return
        if status:
            self._bar.update(self._task, advance=steps, status=_status_text(status))
        else:
            self._bar.update(self._task, advance=steps)

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class ProgressLines:
    """One log line every ten seconds, for files and pipes."""

    def __init__(self) -> None:
        self._description = ""
        self._total: int | None = None
        self._done = 0
        self._last = 0.0
        self._status = ""

    def begin(self, description: str, total: int | None) -> None:
        """Remember the work; short work stays silent."""
        self._description, self._total, self._done = description, total, 0
        self._last = time.monotonic()
        self._status = ""

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """Write a line when the last one is ten seconds old."""
        self._done += steps
        if status:
            self._status = " " + _status_text(status)
        if time.monotonic() - self._last >= PLAIN_INTERVAL_SECONDS:
            of_total = f"/{self._total:,}" if self._total is not None else ""
            LOGGER.info(f"{self._description}: {self._done:,}{of_total}{self._status}")
            self._last = time.monotonic()

    def end(self) -> None:
        """Nothing to take away."""


def _status_text(status: dict[str, float | str]) -> str:
    return " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in status.items())
