"""What a command of a family gets beside its settings, and what it gives back to be said and recorded."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar, cast

from bioattn.io.files import text_output
from bioattn.io.settings import Settings, force_option, resume_option, shard_option, threads_option
from bioattn.system.device import Device, device_option
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    import torch

Loaded = TypeVar("Loaded")


class Running(Protocol):
    """The surroundings of a command that runs a model."""

    progress: Progress
    stdout: TextIO
    """For results whose name is `-`."""
    loaded: Any
    """The model's runner where it is loaded already; None: the settings say where it is."""

    def device(self, wanted: Device, threads: int | None) -> "torch.device":
        """Set the number of CPU threads, choose the device, and say which it is."""

    def warn(self, sentence: str) -> None:
        """Say what may be unexpected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(Settings):
    """The options of every command that runs a model."""

    device: Device = device_option()
    threads: int | None = threads_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumableCommand(RunCommand):
    """The options of a command that can be interrupted, and of which shards can be run."""

    shard: str | None = shard_option()
    resume: bool = resume_option()
    force: bool = force_option()


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


def loaded_model(settings: Any, running: Running, load: "Callable[[Path, torch.device], Loaded]") -> Loaded:
    """The model of a command on the device that it asks for: loaded already, or from `settings.model`."""
    device = running.device(settings.device, settings.threads)
    return running.loaded or load(settings.model, device)


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
