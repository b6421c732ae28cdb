"""The accuracy of a model, with an interval where data are given.

The training record holds points. Where the dataset and the model's predictions of its test genes are given too,
the interval of the model's figure over genes is computed here.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.io.files import sha256_of
from bioattn.promoters.bootstrap import Estimate, estimate, median_auroc, median_pearson
from bioattn.promoters.dataset import TEST, VALIDATION, PromoterDataset
from bioattn.views.evaluation import HEADLINE, AccuracyTable, Evaluation, read_evaluation

_SAME = 0.01
"""A figure computed here that differs more from the recorded one is of other predictions."""


def collect_accuracy(
    model: Path,
    record: Mapping[str, Any],
    task: str,
    dataset_path: Path | None = None,
    dataset: PromoterDataset | None = None,
    predictions: pd.DataFrame | None = None,
) -> Evaluation | None:
    """The evaluation of a promoter model with an interval and notes; None when it was never scored.

    predictions: of the model, genes × treatments, response units. Raises: FormatError for a damaged record.
    """
    evaluation = read_evaluation(model, record, task)
    if evaluation is None:
        return None
    if dataset is not None and dataset_path is not None:
        if record.get("dataset", {}).get("sha256") != sha256_of(dataset_path):
            note = (
                f"{dataset_path.name} is not the dataset that the model was trained on, so splits and measured "
                "responses shown here may not be those behind these figures."
            )
            return replace(evaluation, notes=(note,))
        if predictions is not None:
            return replace(evaluation, interval=_interval(dataset, predictions, evaluation.tables[0], task))
    return evaluation


def _interval(
    dataset: PromoterDataset, predictions: pd.DataFrame, table: AccuracyTable, task: str
) -> Estimate | None:
    """Over the genes of the table, if the predictions are those that were scored."""
    split = {"test genes": TEST, "validation genes": VALIDATION}.get(table.cells)
    model = table.model
    if split is None or model is None:
        return None
    genes = dataset.genes_in(split)
    names = [dataset.gene_ids[gene] for gene in genes]
    treatments = [name for name in dataset.treatments.names if name in predictions.columns]
    if len(treatments) < dataset.num_treatments or not set(names) <= set(predictions.index):
        return None
    truth = dataset.targets[genes].astype(np.float64)
    answers: NDArray[np.float64] = predictions.loc[names, treatments].to_numpy(np.float64)
    # Correlation and rank do not ask for the units, so standardised targets need no way back.
    statistic = median_auroc if task == "binary" else median_pearson
    found = estimate(statistic(truth, answers), len(genes))
    recorded = model.figures.get(HEADLINE.get(task, "pearson"))
    return found if recorded is not None and abs(found.value - recorded) <= _SAME else None
