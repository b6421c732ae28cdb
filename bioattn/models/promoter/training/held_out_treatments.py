"""The baseline for treatments that were not trained on: answer as the nearest treatment that was.

Shape suffixes: G genes, H held-out treatments, C training treatments (candidates).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bioattn.errors import BioattnError
from bioattn.models.promoter.training.baselines import Baseline
from bioattn.models.promoter.training.ridge import Matrix
from bioattn.promoters.dataset import TEST, TRAIN, PromoterDataset
from bioattn.promoters.response_metrics import Floats, pearson
from bioattn.promoters.treatments import TreatmentTable


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestTreatment:
    """Held-out treatments answered by their nearest training treatment."""

    name: str
    treatments: list[str]
    """The held-out treatments, in the order of the columns of `predictions`."""
    nearest: list[str]
    """The training treatment each is answered by."""
    predictions: Matrix
    """(genes, held-out treatments): on training genes what was measured for the nearest treatment (its training
    mean where it was not), on all other genes what the base model predicts for it."""


def nearest_treatment(
    dataset: PromoterDataset,
    base: Baseline,
    by: Literal["features", "responses"] = "features",
    split: int = TEST,
) -> NearestTreatment:
    """Answer the treatments of `split` by their nearest training treatments.

    by: "features" compares rows of the treatment table (`feature_distances`) and can be asked of any treatment;
    "responses" takes the training treatment whose responses correlate best over training genes, which nobody has
    before measuring: an upper mark.

    Raises: BioattnError when no treatment is held out, or there is no feature to compare.
    """
    held_out, candidates = dataset.treatments_in(split), dataset.treatments_in(TRAIN)
    if not len(held_out) or not len(candidates):
        raise BioattnError(
            f"{len(held_out)} treatments are held out and {len(candidates)} trained on; both are needed"
        )
    train = dataset.genes_in(TRAIN)
    if by == "features":
        nearest_H = feature_distances(dataset.treatments)[np.ix_(held_out, candidates)].argmin(axis=1)
    else:
        nearest_H = response_correlations(dataset.targets[train], held_out, candidates).argmax(axis=1)
    predictions_GH = base.predictions[:, nearest_H].copy()
    measured_GH = dataset.targets[np.ix_(train, candidates[nearest_H])]
    with np.errstate(invalid="ignore"):
        predictions_GH[train] = np.where(
            np.isnan(measured_GH), _column_means(measured_GH).astype(np.float32), measured_GH
        )
    names = dataset.treatments.names
    return NearestTreatment(
        name=f"nearest treatment by {by}",
        treatments=[names[column] for column in held_out],
        nearest=[names[candidates[index]] for index in nearest_H],
        predictions=predictions_GH,
    )


def feature_distances(table: TreatmentTable) -> Floats:
    """How different two treatments' features are, 0 to 1: shape=(treatments, treatments).

    The mean over features of: 0 or 1 for equal or different categories (missing is a category), and for numbers
    the difference of their ranks as a share of all ranks, so that 5 and 10 minutes are as near as 5 and 10 days;
    1 where only one of the two has a number.

    Raises: BioattnError when the table has no features.
    """
    if not table.columns:
        raise BioattnError(
            "the treatment table has no features, so no treatment is nearer than another; "
            "give --treatment-table when the dataset is prepared"
        )
    size = len(table.names)
    total = np.zeros((size, size))
    for column in table.columns:
        values = table.frame[column].to_numpy()
        if table.is_numeric(column):
            numbers = values.astype(np.float64)
            missing = np.isnan(numbers)
            ranks = rankdata(numbers, method="dense", nan_policy="omit")
            spread = max(1.0, np.nanmax(ranks, initial=1.0) - 1.0)
            distance = np.abs(np.subtract.outer(ranks, ranks)) / spread
            distance = np.where(np.isnan(distance), 1.0, distance)
            distance[np.ix_(missing, missing)] = 0.0
        else:
            distance = (values[:, None] != values[None, :]).astype(np.float64)
        total += distance
    return total / len(table.columns)


def response_correlations(
    targets: Matrix, held_out: NDArray[np.int64], candidates: NDArray[np.int64]
) -> Floats:
    """Pearson r over genes of each held-out with each candidate treatment: shape=(held-out, candidates).

    Over genes measured in both; −1 where undefined.
    """
    correlations_HC = np.full((len(held_out), len(candidates)), -1.0)
    others_GC = targets[:, candidates].astype(np.float64)
    for row, column in enumerate(held_out):
        own_GC = np.where(np.isnan(others_GC), np.nan, targets[:, [column]].astype(np.float64))
        r_C = pearson(own_GC, np.where(np.isnan(own_GC), 0.0, others_GC))[0]
        correlations_HC[row] = np.where(np.isnan(r_C), -1.0, r_C)
    return correlations_HC


def _column_means(values_GH: Matrix) -> Floats:
    measured_GH = ~np.isnan(values_GH)
    totals_H = np.where(measured_GH, values_GH, 0.0).sum(axis=0, dtype=np.float64)
    means_H: Floats = totals_H / np.maximum(measured_GH.sum(axis=0), 1)
    return means_H
