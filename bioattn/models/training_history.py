"""The curves of a training: `history.csv` of a model folder (docs/formats/model.md)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_lines
from bioattn.store.training_record import HISTORY, read_training_record

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
