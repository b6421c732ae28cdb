"""The family of diffusion models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import Settings, argument, option, table
from bioattn.models.diffusion import running as runs
from bioattn.models.diffusion.config import DiffusionModelConfig, DiffusionTrainingConfig
from bioattn.models.diffusion.running import PromoterGeneration
from bioattn.models.family import Family, imported
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionTraining(TrainingCommand):
    """Train a model that writes promoters for chosen treatments.

    The model learns to restore noised promoters, given the treatments that they respond to. Settings come from the
    defaults, then --config (tables [model] and [training], every field of which docs/models/diffusion.md
    explains), then the options here. Prints bits per base on held-out promoters. Ctrl-C or SIGTERM finishes
    the step and saves; --resume continues, to the same weights as an uninterrupted run.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare dataset`.")
    tokens_from: Path | None = option(
        "Folder of a model that knows the treatments, such as `train promoter` makes, and gives their vectors, "
        "which stay as they are [default: learned].",
        metavar="FOLDER",
        recorded_file="model.safetensors",
    )
    model: Mapping[str, Any] = table(DiffusionModelConfig)
    training: Mapping[str, Any] = table(DiffusionTrainingConfig)


class DiffusionFamily(Family):
    name = "diffusion"
    title = "promoters written for chosen treatments, with where each treatment wrote"
    settings: Mapping[str, type[Settings]] = {"train": DiffusionTraining, "generate": PromoterGeneration}
    nouns: Mapping[str, str] = {"generate": "promoters"}

    load = imported("diffusion.folder", "load_denoiser")
    task = imported("diffusion.training.task", "DiffusionTask")
    generate = staticmethod(runs.generate)
    export_attention = staticmethod(runs.export_attention)


FAMILY = DiffusionFamily()
