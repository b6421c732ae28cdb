"""How well the model predicts beside simple models, from its `training.json`, with an interval where data are
given.

The record holds points. Where the dataset and the model's predictions of its test genes are given too, the
interval of the model's figure over genes is computed here.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.files import read_lines, sha256_of
from bioattn.models.training_record import MODEL_ROW, check_history, read_training_record
from bioattn.promoters.bootstrap import Estimate, estimate, median_auroc, median_pearson
from bioattn.promoters.dataset import TEST, VALIDATION, PromoterDataset

HEADLINE = {"regression": "pearson", "binary": "auroc"}
METRIC_TITLES = {
    "pearson": "r",
    "spearman": "Spearman ρ",
    "r_squared": "R²",
    "mse": "mean squared error",
    "gene_pearson": "r within genes",
    "specific_pearson": "treatment-specific r",
    "auroc": "AUROC",
    "auprc": "average precision",
}
HEADLINE_TITLES = {"pearson": "median r over treatments", "auroc": "median AUROC over treatments"}
_SAME = 0.01
"""A figure computed here that differs more from the recorded one is of other predictions."""


@dataclass(frozen=True, slots=True)
class PredictorRow:
    """One predictor on some cells."""

    name: str
    is_model: bool
    figures: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class AccuracyTable:
    """All predictors on the same cells."""

    cells: str
    """Such as `test genes`."""
    metrics: list[str]
    rows: list[PredictorRow]

    @property
    def model(self) -> PredictorRow | None:
        """The row of the model itself."""
        return next((row for row in self.rows if row.is_model), None)

    def best_baseline(self, metric: str) -> PredictorRow | None:
        """The simple model with the best figure; None without any."""
        simple = [row for row in self.rows if not row.is_model and row.figures.get(metric) is not None]
        return max(simple, key=lambda row: row.figures[metric] or 0.0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What the model reaches."""

    task: str
    tables: list[AccuracyTable]
    """Test genes first."""
    per_treatment: dict[str, float | None]
    """The headline figure of every treatment on the test (else validation) genes."""
    interval: Estimate | None = None
    """Of the model's headline figure on test genes, over genes."""
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The metric that words speak of."""
        return HEADLINE.get(self.task, "pearson")


@dataclass(frozen=True, slots=True)
class Curve:
    """One column of a training history."""

    name: str
    values: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingHistory:
    """How training went."""

    step_name: str
    """`epoch`, or `step` of an MSA/pair model."""
    steps: list[int]
    curves: list[Curve]
    best: int | None
    """The step whose weights were kept."""


def read_record(model: Path) -> dict[str, Any]:
    """The content of `training.json`; empty when the folder has none (published parameters).

    Raises: FormatError when it is damaged.
    """
    return read_training_record(model)


def collect_accuracy(
    model: Path,
    record: dict[str, Any],
    task: str,
    dataset_path: Path | None = None,
    dataset: PromoterDataset | None = None,
    predictions: pd.DataFrame | None = None,
) -> Accuracy | None:
    """The tables of a promoter model; None when it was never scored.

    predictions: of the model, genes × treatments, response units. Raises: FormatError for a damaged record.
    """
    try:
        evaluation = record["evaluation"]
        rows = [
            (str(row["cells"]), PredictorRow(str(row["name"]), row["name"] == MODEL_ROW, _figures(row)))
            for row in evaluation["rows"]
        ]
        per_treatment = {
            str(name): figures.get(HEADLINE.get(task, "pearson"))
            for name, figures in evaluation["per_treatment"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        if not record:
            return None
        raise FormatError(
            f"{model / 'training.json'}: its evaluation is incomplete ({error!r}); train the model again"
        ) from error
    if not rows:
        return None
    tables = []
    for cells in sorted(dict.fromkeys(cells for cells, _ in rows), key=_cells_order):
        mine = [row for where, row in rows if where == cells]
        metrics = [name for name in METRIC_TITLES if any(name in row.figures for row in mine)]
        tables.append(AccuracyTable(cells, metrics, mine))
    interval, notes = None, list[str]()
    if dataset is not None and dataset_path is not None:
        if record.get("dataset", {}).get("sha256") != sha256_of(dataset_path):
            notes.append(
                f"{dataset_path.name} is not the dataset that the model was trained on, so splits and measured "
                "responses shown here may not be those behind these figures."
            )
        elif predictions is not None:
            interval = _interval(dataset, predictions, tables[0], task)
    return Accuracy(
        task=task, tables=tables, per_treatment=per_treatment, interval=interval, notes=tuple(notes)
    )


def _figures(row: dict[str, Any]) -> dict[str, float | None]:
    return {
        name: float(value) if isinstance(value, int | float) and math.isfinite(value) else None
        for name, value in row.items()
        if name in METRIC_TITLES
    }


def _cells_order(cells: str) -> tuple[int, str]:
    order = ("test genes", "validation genes")
    return (order.index(cells) if cells in order else len(order), cells)


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


def read_training_history(model: Path, record: dict[str, Any]) -> TrainingHistory | None:
    """The curves worth showing of `history.csv`; None without one. Raises: FormatError naming a bad line."""
    path = model / "history.csv"
    if not path.is_file():
        return None
    check_history(model)
    lines = list(read_lines(path))
    if len(lines) < 2:
        return None
    header = next(csv.reader([lines[0][1]]))
    steps: list[int] = []
    columns: list[list[float | None]] = [[] for _ in header]
    for number, line in lines[1:]:
        cells = next(csv.reader([line]))
        try:
            steps.append(int(cells[0]))
            for values, cell in zip(columns, cells, strict=True):
                values.append(float(cell) if cell and math.isfinite(float(cell)) else None)
        except (ValueError, IndexError) as error:
            raise FormatError(f"{path}:{number}: is no row of a training history ({error})") from error
    curves = [
        Curve(name, values)
        for name, values in zip(header, columns, strict=True)
        if name.endswith("loss") or name.removeprefix("validation_") in ("pearson", "auroc", "precision_L")
    ]
    best = record.get("best_epoch", record.get("best_step"))
    return TrainingHistory(
        step_name=header[0], steps=steps, curves=curves, best=best if isinstance(best, int) else None
    )
