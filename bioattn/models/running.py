"""What a command of a family gets beside its settings, and what it gives back to be said and recorded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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


class RunReport:
    """What a command has done: sentences to say of it, and what the run record holds beside command and inputs."""

    def __init__(
        self,
        *sentences: str,
        outputs: Sequence[Path] | None = None,
        inputs: Mapping[str, Path] | None = None,
        failure: str | None = None,
        **figures: Any,
    ) -> None:
        """outputs: all that was written, the first of which gets the record beside it; empty: no record; None: the
        parameter `output`, unless it is standard output. inputs: more than the parameters say, by name. failure:
        the sentence that ends the command with exit code 1, for what it could not do although it wrote outputs.
        figures: JSON values for the run record.
        """
        self.sentences = sentences
        self.outputs = outputs
        self.inputs: Mapping[str, Path] = inputs or {}
        self.failure = failure
        self.figures = figures


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
