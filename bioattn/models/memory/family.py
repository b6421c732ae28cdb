"""The family of memory networks: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import (
    Settings,
    Writes,
    argument,
    option,
    output_option,
    table,
    threads_option,
)
from bioattn.models.family import Family, imported
from bioattn.models.memory.config import MemoryModelConfig, MemoryTrainingConfig
from bioattn.system.device import Device, device_option
from bioattn.training.settings import TrainingCommand

FACTS_HELP = "Table with the columns fact and text, and story where there are several; or its folder."
QUESTIONS_HELP = (
    "Table with the columns question and text and, where they are known, story, answer, facts (the true ones in "
    "their order) and split [default: questions.tsv beside FACTS]."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTraining(TrainingCommand):
    """Train a memory network: it answers questions by reading one fact after the other.

    Where questions name their true facts, each hop learns to read its own; else training begins without softmax
    (linear start). Settings come from the defaults, then --config (tables [model] and [training], every field of
    which docs/models/memory.md explains), then the options here. Prints accuracy on held-out questions, and of
    each hop. Ctrl-C or SIGTERM finishes the step and saves; --resume continues, to the same weights as an
    uninterrupted run.
    """

    facts: Path = argument("FACTS", FACTS_HELP, recorded="facts")
    questions: Path | None = option(QUESTIONS_HELP)
    model: Mapping[str, Any] = table(MemoryModelConfig)
    training: Mapping[str, Any] = table(MemoryTrainingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun(Settings):
    """Answer questions about facts.

    Writes a TSV: question, story, answer, its probability, the fact that each hop reads most and its weight, and
    where the table of questions has answers, whether it is right.
    """

    model: Path = argument("MODEL", "Folder of a trained memory network.", recorded_file="model.safetensors")
    facts: Path = argument("FACTS", FACTS_HELP, recorded="facts")
    output: Path = output_option("Table to write.", Writes.FILE)
    questions: Path | None = option(QUESTIONS_HELP)
    attention: Path | None = option("Also write the weights hop × fact here as HDF5.", writes=Writes.FILE)
    device: Device = device_option()
    threads: int | None = threads_option()


class MemoryFamily(Family):
    name = "memory"
    title = "questions about facts: answered hop after hop, with the facts that were read"
    settings: Mapping[str, type[Settings]] = {"train": MemoryTraining, "run": MemoryRun}

    load = imported("memory.model", "load_memory")
    task = imported("memory.task", "MemoryTask")
    run = imported("memory.run", "run_memory")


FAMILY = MemoryFamily()
