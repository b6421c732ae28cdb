"""Settings of a training run against its dataset: whether they fit, and those that nobody gave.

The data choose by their size and their noise. Both are known before training: the number of promoters, and how
well ridges on k-mers predict validation genes.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bioattn.errors import BioattnError
from bioattn.io.settings import build
from bioattn.models.promoter.config import (
    Conditioning,
    Loss,
    Metric,
    PositionBias,
    PromoterModelConfig,
    QuerySource,
    Readout,
    TrainingConfig,
    TreatmentEncoding,
)
from bioattn.models.promoter.training.baselines import Baseline, BaselineData
from bioattn.models.promoter.training.first_weights import strongest_kmer
from bioattn.models.promoter.training.ridge import kmer_counts
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")
FEW_PROMOTERS = 20_000
LITTLE_SIGNAL = 0.45
"""Median r of the best ridge on validation genes."""
CLEAR_MOTIF = 0.4
"""Correlation of the presence of one k-mer with a component of the responses: such motifs the defaults find."""
SHARED_STEM_DROPOUT = 0.3
"""Chosen on validation promoters of plant core promoters."""
SMALL_NOISY: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "model": {
            "conditioning": "cross",
            "stem": "both",
            "channels": 128,
            "num_heads": 8,
            "treatment_channels": 64,
            "dropout": 0.5,
        },
        "training": {"warm_start": True, "learning_rate": 3e-3, "epochs": 20, "max_shift": 30},
    }
)
"""As data/settings/small-noisy.toml, which says why."""


def model_config(
    dataset: PromoterDataset, settings: Mapping[str, Any], training: TrainingConfig, source: str = "options"
) -> PromoterModelConfig:
    """The shape of the model: the dataset's length, the settings given, defaults for the rest.

    source: where the settings come from, for messages.
    """
    defaults: dict[str, Any] = {"unconditional": training.unconditional_probability > 0}
    if settings.get("readout") == Readout.SHARED:
        defaults["sink"] = True
    cross = settings.get("conditioning", Conditioning.CROSS) == Conditioning.CROSS
    if cross and settings.get("attention_query", QuerySource.TREATMENT) == QuerySource.TREATMENT:
        defaults["position_bias"] = PositionBias.TREATMENT
    return build(PromoterModelConfig, {**defaults, **settings, "length": dataset.length}, source)


def loss_and_metric(training: TrainingConfig, task: str) -> tuple[Loss, Metric]:
    """Those of the settings, else the usual ones of the task.

    Raises: BioattnError when they are for the other kind of task.
    """
    binary = task == "binary"
    loss = training.loss or (Loss.BINARY if binary else Loss.MSE)
    metric = training.metric or (Metric.AUROC if binary else Metric.PEARSON)
    fits = {
        "loss": (loss is Loss.BINARY) == binary,
        "metric": metric is Metric.LOSS or (metric in (Metric.AUROC, Metric.AVERAGE_PRECISION)) == binary,
    }
    for name, value in (("loss", loss), ("metric", metric)):
        if not fits[name]:
            raise BioattnError(f"{name} = {value} does not fit the dataset, whose task is {task}")
    return loss, metric


def report_features(dataset: PromoterDataset, vocabulary: TreatmentVocabulary) -> None:
    """Say by what treatments are known, and what the held-out ones have that training does not show."""
    if vocabulary.encoding is TreatmentEncoding.ID:
        return
    LOGGER.info(f"treatment features: {vocabulary.describe()} (choose with treatment_columns in --config)")
    if unclear := vocabulary.unclear_doses(dataset.treatments):
        LOGGER.warning(f"doses that are no number with a unit count as unknown: {quoted(unclear)}")
    names = dataset.treatments.names
    held_out = [names[t] for split in (VALIDATION, TEST) for t in dataset.treatments_in(split)]
    unseen = vocabulary.unseen(dataset.treatments.select(held_out))
    if unseen:
        values = "; ".join(f"{column} {quoted(cells)}" for column, cells in unseen.items())
        LOGGER.warning(
            f"held-out treatments have what training never saw ({values}): "
            "the model predicts their responses without it"
        )


class ChosenSettings(NamedTuple):
    """Values for what was not given, and why."""

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    reason: str


def choose_settings(dataset: PromoterDataset, simple: Sequence[Baseline]) -> ChosenSettings:
    """`SMALL_NOISY` where there are fewer than `FEW_PROMOTERS` training promoters, the best ridge has a median r
    below `LITTLE_SIGNAL` on validation genes, and no k-mer correlates with a component of the responses above
    `CLEAR_MOTIF`; else the defaults.

    Its k-mers are as long as those of the component ridge, and as many of them are dropped as fits it.
    """
    promoters = len(dataset.genes_in(TRAIN))
    signal = max(
        (row.validation.get("pearson", -1.0) for row in simple if row.model is not None), default=-1.0
    )
    ridge = next((row for row in simple if row.name == "component ridge"), None)
    if dataset.task != "regression" or ridge is None or ridge.model is None:
        return ChosenSettings({}, {}, "defaults (no ridge regression tells how noisy the data are)")
    training = BaselineData(dataset)
    motif = strongest_kmer(training)
    data = f"{promoters:,} training promoters, best ridge r {signal:.2f}, strongest k-mer r {motif:.2f}"
    if promoters >= FEW_PROMOTERS or signal >= LITTLE_SIGNAL or motif >= CLEAR_MOTIF:
        return ChosenSettings({}, {}, f"defaults ({data})")
    kmer, dropout = ridge.model.standardiser.blocks[0].k, matching_dropout(training, ridge)
    return ChosenSettings(
        {**SMALL_NOISY["model"], "kmer": kmer, "kmer_dropout": dropout},
        {**SMALL_NOISY["training"], "max_shift": min(SMALL_NOISY["training"]["max_shift"], dataset.flank)},
        f"those for small and noisy data ({data}), {kmer}-mers, {dropout:.0%} of them dropped",
    )


def shared_stem_dropout(dataset: PromoterDataset) -> tuple[float, str]:
    """`stem_dropout` of a shared readout over the conv stem, and why.

    Few promoters are overfitted, as this readout has no hidden layer to drop from; where a single k-mer tells
    much, dropout would unlearn it.
    """
    promoters = len(dataset.genes_in(TRAIN))
    motif = strongest_kmer(BaselineData(dataset))
    dropout = SHARED_STEM_DROPOUT if promoters < FEW_PROMOTERS and motif < CLEAR_MOTIF else 0.0
    return (
        dropout,
        f"stem_dropout = {dropout:g} ({promoters:,} training promoters, strongest k-mer r {motif:.2f})",
    )


def matching_dropout(data: BaselineData, ridge: Baseline) -> float:
    """The share of k-mers dropped in training with which a ridge's predictions neither shrink nor grow.

    Dropping a share p costs p / (1 − p) × c × (coefficient)² for each k-mer and treatment, c the sum of the
    squared weights of its occurrences (Wager, Wang & Liang 2013). The loss of scaled predictions has its minimum
    at scale 1 where all costs together are the sum of prediction × residual over promoters. Less dropout overfits,
    and more shrinks what the ridge knows faster than training learns.
    """
    assert ridge.model is not None
    codes, standardiser = data.codes[data.train], ridge.model.standardiser
    (block,), (factor_F,) = standardiser.blocks, standardiser.factors
    known_GT = np.isfinite(data.targets[data.train])
    predicted_GT = np.where(known_GT, ridge.predictions[data.train] - data.mean, 0.0)
    agreement = float((predicted_GT * (data.deviations - predicted_GT)).sum())
    squares_F = kmer_counts(codes, block.k, block.canonical, np.square(block.weights(codes.shape[1]))).sum(
        axis=0
    )
    cost = float(squares_F @ np.square(factor_F[:, None] * ridge.model.coefficients).sum(axis=1))
    return round(max(0.0, agreement) / (max(0.0, agreement) + cost), 2)
