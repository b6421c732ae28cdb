"""What of a promoter dataset a training run takes, and whether its settings fit the dataset."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.io.config_file import build
from bioattn.models.promoter.config import (
    Conditioning,
    PositionBias,
    PromoterModelConfig,
    QuerySource,
    Readout,
    TreatmentEncoding,
)
from bioattn.models.promoter.training.config import Loss, Metric, TrainingConfig
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, PromoterDataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")


@dataclass(frozen=True, slots=True)
class TargetScale:
    """Means and standard deviations of the training cells, in the dataset's units: a model predicts 0 ± 1."""

    mean_T: NDArray[np.float64]
    sd_T: NDArray[np.float64]

    @classmethod
    def of(cls, targets_GT: NDArray[np.float32], *, binary: bool, each: bool) -> "TargetScale":
        """Those of the training cells; NaN = missing.

        each: of each treatment by itself, where one readout of all treatments cannot tell their levels apart;
        else of all cells together. Treatments with fewer than two different responses get those of all.
        """
        number = targets_GT.shape[1]
        if binary:
            return cls(np.zeros(number), np.ones(number))
        sd = float(np.nanstd(targets_GT, dtype=np.float64))
        mean_T = np.full(number, np.nanmean(targets_GT, dtype=np.float64))
        sd_T = np.full(number, sd if sd > 0 else 1.0)
        if each:
            for column in np.flatnonzero([len(np.unique(c[np.isfinite(c)])) > 1 for c in targets_GT.T]):
                mean_T[column] = np.nanmean(targets_GT[:, column], dtype=np.float64)
                sd_T[column] = np.nanstd(targets_GT[:, column], dtype=np.float64)
        return cls(mean_T, sd_T)

    def standard(self, targets_BT: Tensor, treatments_T: Tensor | None = None) -> Tensor:
        """Targets of some treatments (positions among all) as the model predicts them: float32."""
        chosen = slice(None) if treatments_T is None else treatments_T.numpy()
        mean_T, sd_T = (torch.from_numpy(values[chosen]).float() for values in (self.mean_T, self.sd_T))
        return (targets_BT - mean_T) / sd_T


def log_odds(targets_GT: NDArray[np.float32]) -> NDArray[np.float64]:
    """Log-odds (T,) of the measured training cells that are 1, half a cell of either kind added; NaN = missing."""
    ones_T = np.nansum(targets_GT, axis=0, dtype=np.float64)
    odds_T: NDArray[np.float64] = (ones_T + 0.5) / (np.isfinite(targets_GT).sum(axis=0) - ones_T + 0.5)
    return np.log(odds_T)


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
    values = {**defaults, **settings, "length": dataset.length}
    return build(PromoterModelConfig, values, source)


def validation_genes(dataset: PromoterDataset, treatments: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The validation genes, if anything was measured there under the training treatments."""
    genes = dataset.genes_in(VALIDATION)
    if len(genes) and np.isfinite(dataset.targets[np.ix_(genes, treatments)]).any():
        return genes
    LOGGER.warning("the dataset has no validation genes: training runs all epochs and keeps the last weights")
    return None


def training_treatments(
    dataset: PromoterDataset, treatments: NDArray[np.int64], reference: str | None
) -> TreatmentTable:
    """The table of the training treatments.

    Raises: BioattnError when nothing is left to train on, and when `reference` is none of them.
    """
    if not len(dataset.genes_in(TRAIN)) or not len(treatments):
        raise BioattnError(
            "the dataset has no training genes or no training treatments; prepare another split"
        )
    table = dataset.treatments.select([dataset.treatments.names[t] for t in treatments])
    if reference is not None and reference not in table.names:
        raise BioattnError(
            f"--reference {reference!r} is no training treatment; there are {', '.join(table.names[:5])}…"
        )
    return table


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


def check_task(dataset: PromoterDataset, training: TrainingConfig) -> None:
    """Raises: BioattnError when loss or metric are for the other kind of task."""
    binary_loss = training.loss is Loss.BINARY
    if training.loss is not None and binary_loss != (dataset.task == "binary"):
        raise BioattnError(f"loss = {training.loss} does not fit the dataset, whose task is {dataset.task}")
    binary_metric = training.metric in (Metric.AUROC, Metric.AVERAGE_PRECISION)
    if training.metric not in (None, Metric.LOSS) and binary_metric != (dataset.task == "binary"):
        raise BioattnError(
            f"metric = {training.metric} does not fit the dataset, whose task is {dataset.task}"
        )
