"""Settings of a training run against its dataset: whether they fit, and those that nobody gave."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

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
    Stem,
    TrainingConfig,
    TreatmentEncoding,
)
from bioattn.models.promoter.training.baselines import Baseline, BaselineData, component_ridge
from bioattn.models.promoter.training.first_weights import CLEAR_MOTIF, strongest_kmer
from bioattn.models.promoter.training.ridge import kmer_counts
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")
FEW_PROMOTERS = 20_000
WARM: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "model": {
            "readout": Readout.SHARED,
            "sink": True,
            "stem": Stem.BOTH,
            "channels": 128,
            "num_heads": 8,
            "treatment_channels": 64,
            "stem_dropout": 0.3,
        },
        "training": {"warm_start": True, "learning_rate": 3e-3, "max_shift": 30},
    }
)
"""Of a network that starts as a ridge; as data/settings/small-noisy.toml, which says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One network to train."""

    config: PromoterModelConfig
    training: TrainingConfig


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


def chosen_plans(first: Plan, dataset: PromoterDataset, simple: Sequence[Baseline]) -> tuple[list[Plan], str]:
    """The networks to train where no setting was given, and why: a cold one, and for regression without a clear
    motif a warm one.

    Where a single k-mer tells much, gradient descent finds motifs by itself, and a warm network is of no use.
    Different kinds of networks help a mean more than other seeds do: gradient descent finds clear motifs, and a
    ridge what single treatments have of their own in noisy data. The warm network's k-mers are as long as those of
    the component ridge, and as many of them are dropped as fits it.
    """
    data = BaselineData(dataset)
    if dataset.task != "regression" or not data.deviations.any():
        return [first], "one from random weights (a warm start is for regression)"
    if strongest_kmer(data) >= CLEAR_MOTIF:
        return [first], "one from random weights, as one k-mer tells much by itself"
    ridge = next((row for row in simple if row.name == "component ridge"), None) or component_ridge(data)
    assert ridge.model is not None
    kmer, dropout = ridge.model.blocks[0].block.k, matching_dropout(data, ridge)
    model = {"kmer": kmer, "kmer_dropout": dropout, "treatment_encoder": first.config.treatment_encoder}
    training = {name: getattr(first.training, name) for name in ("seed", "precision", "epochs")}
    training |= WARM["training"]
    training["max_shift"] = min(training["max_shift"], dataset.flank)
    how = build(TrainingConfig, training, "chosen settings")
    warm = Plan(
        config=model_config(dataset, {**WARM["model"], **model}, how, "chosen settings"), training=how
    )
    reason = (
        f"one from random weights (cold), and one that starts as a ridge on {kmer}-mers (warm; {dropout:.0%} of "
        "them dropped in a step)"
    )
    return [first, warm], reason


def with_stem_dropout(plan: Plan, dataset: PromoterDataset, given: Mapping[str, Any]) -> Plan:
    """A plan with `stem_dropout` for a shared readout over the conv stem, where it is not given.

    Few promoters are overfitted, as this readout has no hidden layer to drop from; where a single k-mer tells
    much, dropout would unlearn it.
    """
    config = plan.config
    shared = config.readout is Readout.SHARED and config.stem is Stem.CONV and dataset.task == "regression"
    if not shared or "stem_dropout" in given:
        return plan
    few = len(dataset.genes_in(TRAIN)) < FEW_PROMOTERS
    dropout = (
        WARM["model"]["stem_dropout"] if few and strongest_kmer(BaselineData(dataset)) < CLEAR_MOTIF else 0.0
    )
    LOGGER.info(f"settings: stem_dropout = {dropout:g}")
    return replace(plan, config=replace(config, stem_dropout=dropout))


def matching_dropout(data: BaselineData, ridge: Baseline) -> float:
    """The share of k-mers dropped in training with which a ridge's predictions neither shrink nor grow.

    Dropping a share p costs p / (1 − p) × c × (coefficient)² for each k-mer and treatment, c the sum of the
    squared weights of its occurrences (Wager, Wang & Liang 2013). The loss of scaled predictions has its minimum
    at scale 1 where all costs together are the sum of prediction × residual over promoters. Less dropout overfits,
    and more shrinks what the ridge knows faster than training learns.
    """
    assert ridge.model is not None
    codes = data.codes[data.train]
    (added_FT,), _ = ridge.model.per_count()
    block = ridge.model.blocks[0].block
    known_GT = np.isfinite(data.targets[data.train])
    predicted_GT = np.where(known_GT, ridge.predictions[data.train] - data.mean, 0.0)
    agreement = float((predicted_GT * (data.deviations - predicted_GT)).sum())
    squares_L = np.square(block.weights(codes.shape[1]))
    squares_F = kmer_counts(codes, block.k, block.columns, squares_L).sum(axis=0)
    cost = float(squares_F @ np.square(added_FT).sum(axis=1))
    return round(max(0.0, agreement) / (max(0.0, agreement) + cost), 2)
