"""What the methods of models below the checks hand over to."""

from pathlib import Path
from typing import Any

from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import CheckRecord
from bioattn.inference.inputs import python_call

__all__ = ["CheckRecord", "check"]


def check(
    model: Any, inputs: Any, *, samples: int, seed: int, dataset: Path | str | None = None, **evidence: Any
) -> CheckRecord:
    """The record of a check, as `CheckedModel.check`. evidence: other fields of `Evidence`."""
    evidence["dataset"] = None if dataset is None else Path(dataset)
    settings = CheckSettings(samples=samples, seed=seed)
    with python_call():
        return check_model(model, inputs, Evidence(**evidence), settings=settings)
