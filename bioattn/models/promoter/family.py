"""The family of promoter models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.attention.choices import AttentionScore
from bioattn.models.promoter.config import Conditioning, TreatmentEncoding
from bioattn.models.settings import (
    Settings,
    argument,
    config_option,
    device_option,
    force_option,
    option,
    output_option,
    resume_option,
    seed_option,
    table,
    threads_option,
    toml_key,
)
from bioattn.system.device import Device
from bioattn.system.precision import Precision

if TYPE_CHECKING:
    import torch

    from bioattn.models.promoter.folder import LoadedPromoterModel


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterTraining(Settings):
    """Train a model that predicts every promoter's response to every treatment.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/promoter.md explains), then the options here. Prints the accuracy on validation and test
    genes beside simple models, and on test genes by treatment. Ctrl-C or SIGTERM finishes the step and saves;
    --resume continues, to the same weights as an uninterrupted run. Several processes or machines train together
    under torchrun: docs/training-on-several-processes.md.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare dataset`.")
    output: Path = output_option("Model folder to write.")
    conditioning: Conditioning | None = option(
        "How treatment meets sequence [default: cross].", table="model"
    )
    treatment_encoder: TreatmentEncoding | None = option(
        "Treatments known by id or by features of the treatment table [default: id].", table="model"
    )
    hops: int | None = option("How often treatments query positions [default: 1].", table="model", min=1)
    num_heads: int | None = option("Attention heads [default: 4].", table="model", min=1)
    attention_score: AttentionScore | None = option("Scoring function [default: dot].", table="model")
    reference: str | None = option(
        "The treatment that is the control, for contrasts.", wanted="the name of a treatment"
    )
    epochs: int | None = option(
        "Passes over the training promoters at most [default: 40].", table="training", min=1
    )
    precision: Precision | None = option("Arithmetic of the forward pass [default: fp32].", table="training")
    config: Path | None = config_option()
    baselines: bool = option("Fit simple models on the same split, to compare with.", default=True)
    seed: int | None = seed_option(table="training")
    device: Device = device_option()
    threads: int | None = threads_option()
    resume: bool = resume_option()
    force: bool = force_option()
    model: Mapping[str, Any] = table()
    """Fields of `PromoterModelConfig` (not `length`, which the dataset gives)."""
    training: Mapping[str, Any] = table()
    """Fields of `TrainingConfig`."""
    treatment_columns: tuple[str, ...] = toml_key("a list of column names", default=())
    """Features used by the features encoder; empty: every column that varies."""


class PromoterFamily:
    """Models of promoters × treatments."""

    name = "promoter"
    title = "promoters × treatments: the response of each promoter to each treatment"
    settings: Mapping[str, type[Settings]] = {"train": PromoterTraining}
    nouns: Mapping[str, str] = {}

    def load(self, folder: Path, device: "torch.device") -> "LoadedPromoterModel":
        """A trained promoter model."""
        from bioattn.models.promoter.folder import load_promoter_model

        return load_promoter_model(folder, device)

    def train(self, settings: PromoterTraining, **running: Any) -> list[list[list[str]]] | None:
        """Train; returns tables of results, or None when there was nothing left to do."""
        from bioattn.io.config_file import build
        from bioattn.models.promoter.training.config import TrainingConfig
        from bioattn.models.promoter.training.model_card import figures_table
        from bioattn.models.promoter.training.train import TrainingJob, train_promoter

        job = TrainingJob(
            dataset_path=settings.dataset,
            output=settings.output,
            model=settings.merged("model"),
            training=build(TrainingConfig, settings.merged("training"), settings.source("training")),
            treatment_columns=settings.treatment_columns,
            reference=settings.reference,
            baselines=settings.baselines,
            settings_source=settings.source("model"),
        )
        evaluation = train_promoter(job, resume=settings.resume, force=settings.force, **running)
        if evaluation is None:
            return None
        details = [
            [name, *(f"{values[i]:.3f}" for values in evaluation.per_treatment.values())]
            for i, name in enumerate(evaluation.treatments)
        ]
        tables = [figures_table(evaluation)]
        return [*tables, [["treatment", *evaluation.per_treatment], *details]] if details else tables


FAMILY = PromoterFamily()
