"""The family of promoter models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bioattn.attention.choices import AttentionScore, PositionEncoding
from bioattn.models.family import Family, imported
from bioattn.models.promoter import running as runs
from bioattn.models.promoter.config import Conditioning, PositionBias, Readout, Stem, TreatmentEncoding
from bioattn.models.promoter.running import PromoterRun
from bioattn.models.settings import (
    Settings,
    argument,
    option,
    toml_key,
)
from bioattn.training.settings import TrainingCommand

TREATMENTS = "treatments.json"
"""The file of a model folder that holds the treatments and how they are encoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterTrainingSettings(TrainingCommand):
    """Train a model that predicts every promoter's response to every treatment.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/promoter.md explains), then the options here. Shows losses and validation figures of every
    epoch, and prints the accuracy on validation and test genes beside simple models, and on test genes by
    treatment. Ctrl-C or SIGTERM finishes the step and saves; --resume continues, to the same weights as an
    uninterrupted run. Several processes or machines train together under torchrun:
    docs/training.md.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare dataset`.")
    conditioning: Conditioning | None = option(
        "How treatment meets sequence [default: cross].", table="model"
    )
    treatment_encoder: TreatmentEncoding | None = option(
        "Treatments known by id, by features of the treatment table, by these and their molecule, or by id and, "
        "where they were not trained, as the mean of those that are like them (kernel) [default: id].",
        table="model",
    )
    stem: Stem | None = option("How bases become bins [default: conv].", table="model")
    position: PositionEncoding | None = option(
        "How self-attention between bins knows where they lie, with --stem transformer [default: rotary].",
        table="model",
    )
    encoder: Path | None = option(
        "Folder of a model of DNA, such as `train language` makes, for the pretrained stem.",
        recorded_file="model.safetensors",
    )
    hops: int | None = option("How often treatments query positions [default: 1].", table="model", min=1)
    num_heads: int | None = option("Attention heads [default: 4].", table="model", min=1)
    attention_score: AttentionScore | None = option("Scoring function [default: dot].", table="model")
    reference: str | None = option(
        "The treatment that is the control, for contrasts.", wanted="the name of a treatment"
    )
    readout: Readout | None = option(
        "Whether each treatment reads what it attended to its own way, or all alike: then maps tell what each bin "
        "contributes [default: own].",
        table="model",
    )
    position_bias: PositionBias | None = option(
        "What attention adds for the distance from the anchor: nothing, shared by all treatments, or each its own "
        "[default: treatment].",
        table="model",
    )
    epochs: int | None = option(
        "Passes over the training promoters at most [default: 40].", table="training", min=1
    )
    baselines: bool = option("Fit simple models on the same split, to compare with.", default=True)
    keep_best: bool = option(
        "Write the best of the simple models as the model folder where it is better on validation genes than the "
        "trained one.",
        default=False,
    )
    treatment_columns: tuple[str, ...] = toml_key("a list of column names", default=())
    """Features used by the features encoder; empty: every column that varies."""


class PromoterFamily(Family):
    name = "promoter"
    title = "promoters × treatments: the response of each promoter to each treatment"
    settings: Mapping[str, type[Settings]] = {"train": PromoterTrainingSettings, "run": PromoterRun}
    files: Sequence[str] = (TREATMENTS,)

    load = imported("promoter.folder", "load_promoter_model")
    task = imported("promoter.training.task", "PromoterTask")
    run = staticmethod(runs.run)
    export_attention = staticmethod(runs.export_attention)


FAMILY = PromoterFamily()
