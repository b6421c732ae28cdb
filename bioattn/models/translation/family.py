"""The family of translation models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import (
    Settings,
    argument,
    table,
)
from bioattn.models.family import Family, imported
from bioattn.models.translation import running as runs
from bioattn.models.translation.config import TranslationModelConfig, TranslationTrainingConfig
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
    model: Mapping[str, Any] = table(TranslationModelConfig)
    training: Mapping[str, Any] = table(TranslationTrainingConfig)


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
