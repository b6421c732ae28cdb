"""The family of translation models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bioattn.attention.choices import AttentionScore
from bioattn.models.family import Family, imported
from bioattn.models.settings import (
    Settings,
    argument,
    option,
)
from bioattn.models.translation import running as runs
from bioattn.models.translation.config import Architecture, Cell, Encoder
from bioattn.models.translation.running import TranslationPreparation, TranslationRun, TranslationSimulation
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationTraining(TrainingCommand):
    """Train a translation model on pairs of sequences, with the true prefix given at every step.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/translation.md explains), then the options here. Prints bits per token, perplexity and accuracy on
    held-out pairs beside counts of aligned tokens. Ctrl-C or SIGTERM finishes the step and saves; --resume
    continues, to the same weights as an uninterrupted run.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare translation`.")
    architecture: Architecture | None = option(
        "What the model is [default: recurrent-attention].", table="model"
    )
    cell: Cell | None = option(
        "Recurrent cell [default: gru; the controller of a Turing machine has none].", table="model"
    )
    encoder: Encoder | None = option(
        "What reads the source for a recurrent decoder [default: bidirectional].", table="model"
    )
    score: AttentionScore | None = option(
        "How a recurrent decoder scores source tokens [default: additive].", table="model"
    )
    input_feeding: bool = option(
        "Let a recurrent decoder read what it attended to before.", default=False, table="model"
    )
    aligned: bool = option(
        "Let a recurrent decoder read the source at the place of the token that it writes.",
        default=False,
        table="model",
    )
    layers: int | None = option(
        "Layers of the encoder, and of the decoder [default: 2].", table="model", min=1
    )
    channels: int | None = option("Channels of a token [default: 128].", table="model", min=1)
    steps: int | None = option("Updates of the weights [default: 2000].", table="training", min=1)


class TranslationFamily(Family):
    name = "translation"
    title = "pairs of sequences: one is written from the other, with what aligned with what"
    settings: Mapping[str, type[Settings]] = {
        "prepare": TranslationPreparation,
        "simulate": TranslationSimulation,
        "train": TranslationTraining,
        "run": TranslationRun,
    }
    load = imported("translation.folder", "load_translator")
    prepare = staticmethod(runs.prepare)
    simulate = staticmethod(runs.simulate)
    task = imported("translation.training.task", "TranslationTask")
    run = staticmethod(runs.run)
    export_attention = staticmethod(runs.export_attention)


FAMILY = TranslationFamily()
