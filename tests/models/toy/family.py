"""A toy family: which bases of a DNA sequence have occurred before, said for each base by one attention layer.

`tests/models/test_family.py` copies this folder away and names it in BIOATTN_FAMILIES: nothing else knows of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import Writes, argument, option, output_option, table
from bioattn.models.family import Family, imported
from bioattn.models.running import RunCommand
from bioattn.training.settings import TrainingCommand, UpdateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyConfig:
    channels: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyTrainingConfig(UpdateConfig):
    steps: int = option("Updates of the weights.", default=4)
    steps_per_round: int = 2
    batch_size: int = 4
    learning_rate: float = 0.03
    patience: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyTraining(TrainingCommand):
    """Train a toy model on the sequences of a FASTA file."""

    sequences: Path = argument("FASTA", "Sequences; each base is to be called new or seen before.")
    model: Mapping[str, Any] = table(ToyConfig)
    training: Mapping[str, Any] = table(ToyTrainingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRun(RunCommand):
    """Call each base of some sequences new (0) or seen before (1)."""

    model: Path = argument("MODEL", "Folder of a trained toy model.")
    sequences: Path = argument("FASTA", "Sequences.")
    output: Path = output_option("Calls to write.", Writes.FILE)


class ToyFamily(Family):
    name = "toy"
    title = "toy: which bases of a sequence have occurred before"
    settings = {"train": ToyTraining, "run": ToyRun}  # noqa: RUF012

    task = imported("toy.model", "ToyTask")
    load = imported("toy.run", "load_toy")
    run = imported("toy.run", "run")
    export_attention = imported("toy.run", "export_attention")
    file_kinds = imported("toy.run", "file_kinds")


FAMILY = ToyFamily()
