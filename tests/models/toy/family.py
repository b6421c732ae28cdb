"""A toy family: which bases of a DNA sequence have occurred before, said for each base by one attention layer.

`tests/models/test_family.py` copies this folder away and names it in BIOATTN_FAMILIES: nothing else knows of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import (
    Settings,
    Writes,
    argument,
    force_option,
    option,
    output_option,
    resume_option,
    seed_option,
    shard_option,
    table,
    threads_option,
)
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.family import Family
from bioattn.models.running import Running, RunReport
from bioattn.system.device import Device, device_option
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyTrainingConfig:
    """How a toy model is trained."""

    steps: int = option("Updates of each stage.", default=4)
    seed: int = seed_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyTraining(TrainingCommand):
    """Train a toy model on the sequences of a FASTA file."""

    sequences: Path = argument("FASTA", "Sequences; each base is to be called new or seen before.")
    training: Mapping[str, Any] = table(ToyTrainingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRun(Settings):
    """Call each base of some sequences new (0) or seen before (1)."""

    model: Path = argument("MODEL", "Folder of a trained toy model.")
    sequences: Path = argument("FASTA", "Sequences.")
    output: Path = output_option("Calls to write.", Writes.FILE)
    attention: Path | None = option("Also write attention here as HDF5.", writes=Writes.FILE)
    device: Device = device_option()
    threads: int | None = threads_option()
    shard: str | None = shard_option()
    resume: bool = resume_option()
    force: bool = force_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyGeneration(Settings):
    """Draw sequences whose next base is one that the model has not seen before, where there is one."""

    model: Path = argument("MODEL", "Folder of a trained toy model.")
    output: Path = output_option("FASTA to write.", Writes.FILE)
    number: int = option("Sequences.", "-n", default=2, min=1)
    seed: int = seed_option()
    device: Device = device_option()
    threads: int | None = threads_option()


class ToyFamily(Family):
    """Toy models."""

    name = "toy"
    title = "toy: which bases of a sequence have occurred before"
    settings: Mapping[str, type[Settings]] = {"train": ToyTraining, "run": ToyRun, "generate": ToyGeneration}
    nouns: Mapping[str, str] = {"generate": "toys"}

    def task(self, settings: ToyTraining, device: Any) -> Any:
        """What `train toy` trains."""
        from bioattn.models.toy.task import ToyTask

        return ToyTask(settings, device)

    def load(self, folder: Path, device: Any) -> Any:
        """A trained toy model."""
        from bioattn.models.toy.runner import ToyRunner

        return ToyRunner(folder, device)

    def run(self, settings: ToyRun, running: Running) -> RunReport:
        """Carry out `run toy`."""
        from bioattn.models.toy.run import run_toy

        return run_toy(settings, settings.output, settings.attention, running)

    def export_attention(self, settings: ExportAttention, running: Running) -> RunReport:
        """Carry out `export attention` for a toy model."""
        from bioattn.models.toy.run import run_toy

        return run_toy(settings, None, settings.output, running)

    def generate(self, settings: ToyGeneration, running: Running) -> RunReport:
        """Carry out `generate toys`."""
        from bioattn.models.toy.run import generate_toys

        return generate_toys(settings, running)

    def file_kinds(self) -> Any:
        """Model folders and calls."""
        from bioattn.models.toy.calls import file_kinds

        return file_kinds(self)


FAMILY = ToyFamily()
