"""`training.json` of a model folder, which names the other files with their digests (`docs/formats/model.md`)."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bioattn.errors import FormatError
from bioattn.io.files import read_json, sha256_of, write_json

TRAINING_RECORD = "training.json"
HISTORY = "history.csv"
FILES = "sha256"
COMPARISON = "comparison"
MODEL_ROW = "this model"
"""The row of an evaluation that holds the trained model, among those of simpler predictors."""
MINUS = "minus "
"""How the name of a figure begins of which less is better; its numbers are negative."""


class Comparison(NamedTuple):
    """A trained model beside the best simple model, by the first figure that tables show."""

    cells: str
    """What was predicted, such as `test genes`: the test data where there are any, else the validation data."""
    figure: str
    """Its heading in tables; more is better."""
    model: float
    simple_model: str
    """Of the simple models the one with the best figure on the validation data."""
    simple: float
    gain: tuple[float, float] | None = None
    """95 % interval of the model's figure less the simple model's, paired; None where it is not known."""

    @property
    def below(self) -> bool:
        """Whether the model does not reach the simple one, beyond the interval where there is one."""
        known = math.isfinite(self.simple) and (self.gain is None or not self.gain[1] >= 0)
        return known and not self.model >= self.simple

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for the training record."""
        figures = {
            name: round(value, 6) if math.isfinite(value) else None
            for name, value in (("model_figure", self.model), ("simple_model_figure", self.simple))
        }
        return {
            "cells": self.cells,
            "figure": self.figure,
            "simple_model": self.simple_model,
            **figures,
            "gain_interval": None if self.gain is None else [round(end, 6) for end in self.gain],
            "below_simple_model": self.below,
        }

    def as_in_tables(self) -> "Comparison":
        """With the figure's own name and sign, also where less of it is better."""
        if not self.figure.startswith(MINUS):
            return self
        gain = None if self.gain is None else (-self.gain[1], -self.gain[0])
        return Comparison(
            self.cells, self.figure.removeprefix(MINUS), -self.model, self.simple_model, -self.simple, gain
        )

    def sentence(self) -> str:
        """What to say of the model beside the simple one."""
        cells, figure, model, simple_model, simple, gain = self.as_in_tables()
        if not math.isfinite(simple):
            return f"whether this model predicts anything is not known: {cells} are too few for {figure}"
        open_ = self.gain is not None and self.gain[0] <= 0
        how = (
            "is neither clearly better nor clearly worse than the best"
            if open_
            else "is better than the best"
        )
        how = "ends below a" if self.below else how
        return (
            f"this model {how} simple model: {figure} on {cells} {model:.3f}, that of {simple_model} "
            f"{simple:.3f}" + ("" if gain is None else f" (difference {gain[0]:.3f} to {gain[1]:.3f})")
        )


def write_training_record(folder: Path, record: Mapping[str, Any], files: Sequence[str]) -> None:
    """Write `training.json` into `folder`: what `record` says, and the digests of `files`."""
    digests = {name: sha256_of(folder / name) for name in files}
    write_json(folder / TRAINING_RECORD, {**record, FILES: digests})


def read_training_record(folder: Path) -> dict[str, Any]:
    """The content of `training.json`; empty when the folder has none. Raises: FormatError when it is damaged."""
    path = folder / TRAINING_RECORD
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: is damaged or was edited")
    return content
