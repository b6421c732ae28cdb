"""Settings of a training run against its dataset: whether they fit, and those that nobody gave.

The data choose by their size and their noise. Both are known before training: the number of promoters, and how
well ridges on k-mers predict validation genes.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bioattn.models.promoter.training.baselines import Baseline, BaselineData
from bioattn.models.promoter.training.first_weights import strongest_kmer
from bioattn.models.promoter.training.ridge import kmer_counts
from bioattn.promoters.dataset import TRAIN, PromoterDataset

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
