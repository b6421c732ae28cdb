"""What a command of a family gets beside its settings, and what it gives back to be said and recorded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from bioattn.io.files import text_output
from bioattn.io.settings import FORCE, RESUME, SHARD, THREADS, Settings
from bioattn.system.device import DEVICE, Device
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    import torch


class Running(Protocol):
    """The surroundings of a command that runs a model."""

    progress: Progress
    stdout: TextIO
    """For results whose name is `-`."""
    warn: Callable[[str], None]
    """Says what may be unexpected."""

    def device(self, wanted: Device, threads: int | None) -> "torch.device":
        """Set the number of CPU threads, choose the device, and say which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Settings):
    """The options of every command that runs a model."""

    device: Device = DEVICE
    threads: int | None = THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableCommand(RunCommand):
    """The options of a command that can be interrupted, and of which shards can be run."""

    shard: str | None = SHARD
    resume: bool = RESUME
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a command did."""

    sentences: Sequence[str]
    outputs: Sequence[Path]
    """All that was written, for the run record, which stands beside the first."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Inputs that the settings do not name themselves, for the run record."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the run record."""
    failure: str | None = None
    """What could not be done although there are outputs: the last sentence, with exit code 1."""


@contextmanager
def stream_output(path: Path, running: Running) -> Iterator[tuple[TextIO, list[Path]]]:
    """A file to write or, for `-`, standard output; and what stands in a `RunReport` as written: no stream."""
    if str(path) == "-":
        yield running.stdout, []
    else:
        with text_output(path) as file:
            yield cast(TextIO, file), [path]


def tsv(cells: Iterable[Any]) -> str:
    """A line of a table; numbers that are no integers have seven digits, and None is an empty cell."""
    texts = (
        f"{cell:.7g}" if isinstance(cell, float) else "" if cell is None else str(cell) for cell in cells
    )
    return "\t".join(texts) + "\n"
