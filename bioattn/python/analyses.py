"""What the methods of models below the checks hand over to."""

from pathlib import Path
from typing import Any

from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import CheckRecord
from bioattn.errors import BioattnError
from bioattn.inference.inputs import python_call

__all__ = ["CheckRecord", "check"]


def check(
    model: Any, inputs: Any, *, samples: int, seed: int, dataset: Path | str | None = None, **evidence: Any
) -> CheckRecord:
    """The record of a check, as `CheckedModel.check`. evidence: other fields of `Evidence`."""
    if not isinstance(inputs, Path | str):
        raise BioattnError(f"models of the family {model.family} are checked on a file; give its path")
    evidence["dataset"] = None if dataset is None else Path(dataset)
    settings = CheckSettings(samples=samples, seed=seed)
    with python_call():
        return check_model(model, Path(inputs), Evidence(**evidence), settings=settings)
