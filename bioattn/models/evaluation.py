"""How a model was trained and how well it predicts: `history.csv` of its folder, and the evaluation in its
`training.json` (docs/formats/model.md)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_lines
from bioattn.store.training_record import (
    COMPARISON,
    HISTORY,
    MODEL_ROW,
    TRAINING_RECORD,
    Comparison,
    read_training_record,
)

HEADLINE = {"regression": "pearson", "binary": "auroc"}
METRIC_TITLES = {
    "pearson": "r",
    "spearman": "Spearman ρ",
    "r_squared": "R²",
    "mse": "mean squared error",
    "gene_pearson": "r within genes",
    "pooled_pearson": "r over all cells",
    "specific_pearson": "treatment-specific r",
    "auroc": "AUROC",
    "auprc": "average precision",
}
HEADLINE_TITLES = {"pearson": "median r over treatments", "auroc": "median AUROC over treatments"}


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
    simple: PredictorRow | None = None
    """The simple model that was best on validation genes, in the headline figure; None where none was fitted."""

    @property
    def model(self) -> PredictorRow | None:
        return next((row for row in self.rows if row.is_model), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the model reaches."""

    task: str
    tables: list[AccuracyTable]
    """Test genes first."""
    per_treatment: dict[str, float | None]
    """The headline figure of every treatment on the test (else validation) genes."""
    interval: tuple[float, float] | None = None
    """95 %, over genes, of the model's headline figure in the first table."""

    @property
    def headline(self) -> str:
        """The metric that words speak of."""
        return HEADLINE.get(self.task, "pearson")


def read_evaluation(model: Path, record: Mapping[str, Any], task: str) -> Evaluation | None:
    """The evaluation in the training record of a model folder; None when the model was never scored.

    Raises: FormatError when the record has an incomplete one.
    """
    try:
        evaluation = record["evaluation"]
        rows = [
            (str(row["cells"]), PredictorRow(str(row["name"]), row["name"] == MODEL_ROW, _figures(row)))
            for row in evaluation["rows"]
        ]
        ends = evaluation.get("interval")
        around = None if ends is None else (float(ends[0]), float(ends[1]))
        simple = (record.get(COMPARISON) or record.get("kept") or {}).get("simple_model")
        per_treatment = {
            str(name): figures.get(HEADLINE.get(task, "pearson"))
            for name, figures in evaluation["per_treatment"].items()
        }
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if not record:
            return None
        raise FormatError(
            f"{model / TRAINING_RECORD}: its evaluation is incomplete ({error!r}); train the model again"
        ) from error
    if not rows:
        return None
    tables = []
    order = ("test genes", "validation genes")
    known = {cells for cells, _ in rows}
    for cells in [*(each for each in order if each in known), *sorted(known.difference(order))]:
        mine = [row for where, row in rows if where == cells]
        metrics = [name for name in METRIC_TITLES if any(name in row.figures for row in mine)]
        best = next((row for row in mine if row.name.partition(" (")[0] == simple), None)
        tables.append(AccuracyTable(cells, metrics, mine, best))
    return Evaluation(task=task, tables=tables, per_treatment=per_treatment, interval=around)


def _figures(row: dict[str, Any]) -> dict[str, float | None]:
    return {
        name: float(value) if isinstance(value, int | float) and math.isfinite(value) else None
        for name, value in row.items()
        if name in METRIC_TITLES
    }


def read_comparison(model: Path, record: Mapping[str, Any]) -> Comparison | None:
    """The comparison with the best simple model in the training record of any family; None where there is none.

    Raises: FormatError when it is incomplete.
    """
    content = record.get(COMPARISON)
    if content is None:
        return None
    try:
        figures = [content["model_figure"], content["simple_model_figure"]]
        ours, simple = (math.nan if figure is None else float(figure) for figure in figures)
        texts = [str(content[name]) for name in ("cells", "figure", "simple_model")]
        ends = content.get("gain_interval")
        gain = None if ends is None else (float(ends[0]), float(ends[1]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(
            f"{model / TRAINING_RECORD}: its comparison is incomplete ({error!r}); train the model again"
        ) from error
    return Comparison(texts[0], texts[1], ours, texts[2], simple, gain)


TIMES = ("epoch", "step")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingHistory:
    """How one training went."""

    name: str
    time: str
    columns: dict[str, NDArray[np.float64]]
    """By name, the time among them; NaN = could not be computed."""
    best: int | None
    """The epoch or step whose weights were kept."""

    @property
    def steps(self) -> list[int]:
        """The time of each row."""
        return [int(step) for step in self.columns[self.time]]

    def points(self, column: str) -> list[tuple[int, float | None]]:
        """The time and value of each row; None = could not be computed."""
        values = self.columns[column].tolist()
        return [
            (step, value if np.isfinite(value) else None)
            for step, value in zip(self.steps, values, strict=True)
        ]


def find_history(model: Path) -> TrainingHistory | None:
    """The history of a model folder; None where it has no row. Raises: FormatError when it is damaged."""
    path = model / HISTORY
    if not path.is_file() or sum(1 for _ in read_lines(path)) < 2:
        return None
    return read_history(model)


def read_history(path: Path) -> TrainingHistory:
    """Read `history.csv` of a model folder, or such a file.

    Raises: BioattnError when the folder has none; FormatError when it is no history, or damaged.
    """
    import pandas as pd

    folder = path if path.is_dir() else path.parent
    file = path / HISTORY if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise BioattnError(f"{path}: has no history.csv; name the folder of a model that was trained here")
    try:
        table = pd.read_csv(file, dtype=np.float64)
    except (ValueError, OSError) as error:
        raise FormatError(f"{file}: is no training history ({error})") from error
    if table.columns[0] not in TIMES:
        raise FormatError(f"{file}: is no training history; its first column must be epoch or step")
    if not len(table) or not np.isfinite(table.iloc[:, 0]).all():
        raise FormatError(f"{file}: holds no epoch or step yet")
    record = read_training_record(folder)
    best = record.get("best_epoch", record.get("best_step"))
    return TrainingHistory(
        name=folder.resolve().name if path.is_dir() else file.stem,
        time=str(table.columns[0]),
        columns={str(name): column.to_numpy() for name, column in table.items()},
        best=int(best) if isinstance(best, int | float) else None,
    )
