"""How a model was trained and how well it predicts: `history.csv` of its folder, and the evaluation in its
`training.json` (docs/formats/model.md)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

FIGURES = {
    "regression": {
        "pearson": "median r over treatments",
        "specific_pearson": "treatment-specific median r",
        "gene_pearson": "median r over genes",
        "pooled_pearson": "r over all cells",
    },
    "binary": {"auroc": "AUROC", "auprc": "AUPRC"},
}
"""Which figures a table of a promoter model shows, and their headings; words speak of the first."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One predictor on one set of cells."""

    name: str = ""
    cells: str = ""
    """Such as `test genes` or `test genes × held-out treatments`."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """By metric; NaN = could not be computed."""

    @property
    def is_model(self) -> bool:
        return self.name == MODEL_ROW

    @property
    def plain_name(self) -> str:
        """Without settings of a simple model."""
        return self.name.partition(" (")[0]

    def figure(self, metric: str) -> float | None:
        """None where it is not known."""
        value = self.figures.get(metric, math.nan)
        return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a promoter model reaches on genes and treatments it has not seen, beside simple models."""

    task: str
    rows: Sequence[Row]
    per_treatment: Mapping[str, Mapping[str, float]]
    """The model's figures for every treatment on the test (else validation) genes."""
    beside: Comparison | None = None
    simple_model: str = ""
    """The simple model that was best on validation genes; empty where none was fitted."""
    interval: tuple[float, float] | None = None
    """95 %, over genes, of the model's first figure on the test (else validation) genes."""
    check: str = ""
    """What the quick check of the maps says."""
    verdict: str = ""
    next: tuple[str, ...] = ()
    """What to do after that check; it names the user's files, and is not part of the model folder."""

    @property
    def headline(self) -> str:
        """The metric that words speak of."""
        return next(iter(FIGURES.get(self.task, FIGURES["regression"])))

    @property
    def by_cells(self) -> dict[str, list[Row]]:
        """The rows, those on test genes first, then those on validation genes."""
        order = sorted({row.cells for row in self.rows}, key=lambda cells: (" × " in cells, cells))
        return {cells: [row for row in self.rows if row.cells == cells] for cells in order}

    def model_and_simple(self, cells: str) -> tuple[Row, Row]:
        """Rows of the model and of the best simple model, without a figure where there is none."""
        rows = {row.plain_name: row for row in self.rows if row.cells == cells}
        return rows.get(MODEL_ROW, Row()), rows.get(self.simple_model, Row())

    def of_treatments(self) -> dict[str, float | None]:
        """The headline figure of each treatment; None = could not be computed."""
        return {name: Row(figures=each).figure(self.headline) for name, each in self.per_treatment.items()}

    def table(self) -> list[list[str]]:
        shown = FIGURES[self.task]
        body = [
            [
                row.name,
                row.cells,
                *(f"{row.figures.get(key, math.nan):.3f}".replace("nan", "") for key in shown),
            ]
            for row in self.rows
        ]
        return [["predictor", "scored on", *shown.values()], *body]

    def tables(self) -> list[list[list[str]]]:
        """The comparison, without settings of simple models, and the figures of each treatment, if any."""
        comparison = [[name.partition(" (")[0], *cells] for name, *cells in self.table()]
        if not self.per_treatment:
            return [comparison]
        metrics = next(iter(self.per_treatment.values()))
        details = [
            [name, *(f"{value:.3f}" for value in figures.values())]
            for name, figures in self.per_treatment.items()
        ]
        return [comparison, [["treatment", *(METRIC_TITLES[metric] for metric in metrics)], *details]]

    def comparison(self) -> Comparison | None:
        return self.beside

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [{"name": row.name, "cells": row.cells, **_finite(row.figures)} for row in self.rows],
            "per_treatment": {name: _finite(figures) for name, figures in self.per_treatment.items()},
            "interval": self.interval and [round(end, 6) for end in self.interval],
            "check": self.check,
            "verdict": self.verdict,
        }


def _finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    return {name: round(value, 6) if math.isfinite(value) else None for name, value in figures.items()}


def read_evaluation(model: Path, record: Mapping[str, Any], task: str) -> Evaluation | None:
    """The evaluation in the training record of a model folder; None when the model was never scored.

    Raises: FormatError when the record has an incomplete one.
    """
    if not record:
        return None
    beside = read_comparison(model, record)
    try:
        content, kept = record["evaluation"], record.get("kept") or {}
        ends = content["interval"]
        evaluation = Evaluation(
            task=task,
            rows=[
                Row(name=str(row["name"]), cells=str(row["cells"]), figures=_figures(row))
                for row in content["rows"]
            ],
            per_treatment={str(name): _figures(each) for name, each in content["per_treatment"].items()},
            beside=beside,
            simple_model=kept.get("simple_model", "") if beside is None else beside.simple_model,
            interval=None if ends is None else (float(ends[0]), float(ends[1])),
            check=str(content["check"]),
            verdict=str(content["verdict"]),
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FormatError(
            f"{model / TRAINING_RECORD}: its evaluation is incomplete ({error!r}); train the model again"
        ) from error
    return evaluation if evaluation.rows else None


def _figures(content: Mapping[str, Any]) -> dict[str, float]:
    known = (name for name in METRIC_TITLES if name in content)
    return {name: math.nan if content[name] is None else float(content[name]) for name in known}


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
