"""The family of memory networks: its architecture, its training, and the settings of its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import SettingsError
from bioattn.io.settings import Settings, Writes, argument, option, output_option, require, table
from bioattn.models.family import Family, imported
from bioattn.models.running import RunCommand
from bioattn.training.settings import TrainingCommand, UpdateConfig

FACTS_HELP = "Table with the columns fact and text, and story where there are several; or its folder."
QUESTIONS_HELP = (
    "Table with the columns question and text and, where they are known, story, answer, facts (the true ones in "
    "their order) and split [default: questions.tsv beside FACTS]."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModelConfig:
    """Architecture of a memory network."""

    words: tuple[str, ...]
    """Words of the facts and questions of the training, ascending; the tables decide it."""
    answers: tuple[str, ...]
    """Answers of the training questions, ascending; the tables decide it."""
    places: int
    """Words of the longest fact or question of the training; the tables decide it."""
    hops: int = option("Facts that are read one after the other.", default=3, min=1)
    channels: int = 64
    """Numbers that stand for a word, a fact or what is known so far."""

    def __post_init__(self) -> None:
        require(self, ("hops", "channels", "places"), lambda value: value >= 1, "be at least 1")
        if not self.answers or not {*self.answers} <= {*self.words}:
            raise SettingsError("answers must be words, at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrainingConfig(UpdateConfig):
    """How a memory network is trained."""

    batch_size: int = 32
    learning_rate: float = 5e-3
    weight_decay: float = 0.0
    hop_weight: float = 1.0
    """Weight of the loss of the hops, where questions name their true facts; 0: learn from answers alone."""
    linear_fraction: float = 0.3
    """Without true facts, share of the steps in which facts are weighted without softmax (linear start)."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("hop_weight",), lambda value: value >= 0, "not be negative")
        require(self, ("linear_fraction",), lambda value: 0 <= value < 1, "lie in [0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTraining(TrainingCommand):
    """Train a memory network: it answers questions by reading one fact after the other.

    Where questions name their true facts, each hop learns to read its own; else training begins without softmax
    (linear start). docs/models/memory.md explains the tables [model] and [training] of --config. Prints accuracy
    on held-out questions, and of each hop.
    """

    facts: Path = argument("FACTS", FACTS_HELP, recorded="facts")
    questions: Path | None = argument("QUESTIONS", QUESTIONS_HELP, default=None)
    model: Mapping[str, Any] = table(MemoryModelConfig)
    training: Mapping[str, Any] = table(MemoryTrainingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRun(RunCommand):
    """Answer questions about facts.

    Writes a TSV: question, story, answer, its probability, the fact that each hop reads most and its weight, and
    where the table of questions has answers, whether it is right.
    """

    model: Path = argument("MODEL", "Folder of a trained memory network.", recorded_file="model.safetensors")
    facts: Path = argument("FACTS", FACTS_HELP, recorded="facts")
    output: Path = output_option("Table to write.", Writes.FILE)
    questions: Path | None = argument("QUESTIONS", QUESTIONS_HELP, default=None)
    attention: Path | None = option("Also write the weights hop × fact here as HDF5.", writes=Writes.FILE)


class MemoryFamily(Family):
    name = "memory"
    title = "questions about facts: answered hop after hop, with the facts that were read"
    settings: Mapping[str, type[Settings]] = {"train": MemoryTraining, "run": MemoryRun}

    load = imported("memory.run", "load_memory")
    task = imported("memory.task", "MemoryTask")
    run = imported("memory.run", "run_memory")


FAMILY = MemoryFamily()
