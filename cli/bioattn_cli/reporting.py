"""What a person sees while a command runs: messages and progress on stderr, never on stdout."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from bioattn.system.device import Device, choose_device, describe_device, launch, set_threads
from bioattn.system.progress import Progress
from bioattn.text import duration, printable, shortened

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress as RichProgress

LOGGER = logging.getLogger("bioattn")
PLAIN_INTERVAL_SECONDS = 10.0
TYPED: dict[str, str] = {}
"""What the user typed for a file that stands for a pipe, by its path: messages name that."""


def is_reporting_process(arguments: Sequence[str]) -> bool:
    """Whether this process writes and reports: always, but of several that train together only the first."""
    return arguments[:1] != ["train"] or launch().rank == 0


class LogFormat(StrEnum):
    """How messages are written."""

    TEXT = "text"
    JSON = "json"


def error_line(sentence: str, arguments: Sequence[str], level: str = "error") -> str:
    """How the sentence that ends a command is written on stderr."""
    # The command line may be too wrong for its options to be read.
    formats = [value for name, value in pairwise(arguments) if name == "--log-format"]
    formats += [argument.partition("=")[2] for argument in arguments if argument.startswith("--log-format=")]
    if formats[-1:] == [LogFormat.JSON]:
        return _json_line(time.time(), level, as_typed(sentence))
    return f"bioattn: {'error: ' if level == 'error' else ''}{printable(as_typed(sentence))}"


def as_typed(sentence: str) -> str:
    """A sentence that names what the user typed."""
    for path, name in TYPED.items():
        sentence = sentence.replace(path, name)
    return sentence


def _json_line(seconds: float, level: str, event: str) -> str:
    return json.dumps({"time": round(seconds, 3), "level": level, "event": event})


class Messages(logging.StreamHandler[TextIO]):
    """Writes messages; above the bar while there is one, which would otherwise stand before and after them."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__(sys.stderr)
        self.log_format = log_format

    def format(self, record: logging.LogRecord) -> str:
        level, said = record.levelname.lower(), shortened(as_typed(record.getMessage()))
        if self.log_format is LogFormat.JSON:
            return _json_line(record.created, level, said)
        return ("" if level == "info" else f"{level}: ") + printable(said)

    def emit(self, record: logging.LogRecord) -> None:
        if ProgressBar.bar is None:
            super().emit(record)
        else:
            text, console = self.format(record), ProgressBar.bar.console
            console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


class Reporter:
    """Messages (through the `bioattn` logger), progress and device of one command: a
    `bioattn.models.running.Running`."""

    def __init__(
        self, *, quiet: bool, verbose: bool, log_format: LogFormat, arguments: Sequence[str] = ()
    ) -> None:
        self.command = ["bioattn", *arguments]
        """The command line as it was typed, for run records."""
        LOGGER.handlers[:] = [Messages(log_format)]
        LOGGER.propagate = False
        LOGGER.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
        self.say: Callable[[str], None] = LOGGER.info
        """Tell the user something on stderr (not with --quiet)."""
        self.warn: Callable[[str], None] = LOGGER.warning
        """Warn the user on stderr, also with --quiet."""
        self.error: Callable[[str], None] = LOGGER.error
        """Tell of a failure that does not end the command at once."""
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        has_bar = is_terminal and not quiet and log_format is LogFormat.TEXT
        self.progress: Progress = ProgressBar() if has_bar else ProgressLines()
        """A bar on a terminal, otherwise a line now and then; nothing with --quiet."""
        self.stdout: TextIO = sys.stdout

    def device(self, wanted: Device, threads: int | None) -> "torch.device":
        """Set the number of CPU threads, choose the device, and say which it is."""
        set_threads(threads)
        device, processes = choose_device(wanted), launch().count
        together = f", in each of {processes} processes" if processes > 1 else ""
        self.say(f"running on {describe_device(device)}{together}")
        return device


class ProgressBar(Progress):
    """A rich progress bar on stderr, gone when the work ends."""

    bar: ClassVar["RichProgress | None"] = None
    """The one on the terminal."""

    def begin(self, description: str, total: int | None) -> None:
        """Show a bar of `total` steps."""
        from rich import progress
        from rich.console import Console

        self.end()
        ProgressBar.bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        )
        ProgressBar.bar.add_task(printable(description), total=total, status="")
        ProgressBar.bar.start()

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """Move the bar and show `status` beside it."""
        if ProgressBar.bar is not None:
            shown: dict[str, Any] = {"status": _status_text(status)} if status else {}
            ProgressBar.bar.update(ProgressBar.bar.task_ids[0], advance=steps, **shown)

    def note(self, sentence: str) -> None:
        """Print a line that stays, above the bar."""
        LOGGER.info(sentence)

    def end(self) -> None:
        if ProgressBar.bar is not None:
            ProgressBar.bar.stop()
            ProgressBar.bar = None


class ProgressLines(Progress):
    """One log line every ten seconds, for files and pipes."""

    def __init__(self) -> None:
        self.begin("", None)

    def begin(self, description: str, total: int | None) -> None:
        """Remember the work; short work stays silent."""
        self._description, self._total, self._done = description, total, 0
        self._last, self._told, self._status = time.monotonic(), 0, ""

    def advance(self, steps: int = 1, **status: float | str) -> None:
        """Write a line when the last one is ten seconds old."""
        self._done += steps
        if status:
            self._status = " " + _status_text(status)
        seconds = time.monotonic() - self._last
        if seconds >= PLAIN_INTERVAL_SECONDS:
            of_total = "" if self._total is None else f"/{self._total:,}"
            left = ""
            if self._total is not None and self._done < self._total:
                # By the pace since the last line: what an earlier run had done took no time in this one.
                pace = seconds / max(1, self._done - self._told)
                left = f", about {duration(pace * (self._total - self._done))} left"
            LOGGER.info(f"{self._description}: {self._done:,}{of_total}{self._status}{left}")
            self._last, self._told = time.monotonic(), self._done

    def note(self, sentence: str) -> None:
        """Write a line, whenever the last one was."""
        LOGGER.info(sentence)
        self._last = time.monotonic()


def _status_text(status: dict[str, float | str]) -> str:
    return " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in status.items())
