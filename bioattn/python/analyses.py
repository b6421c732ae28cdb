"""What the methods of models below the checks hand over to."""

from pathlib import Path
from typing import Any

from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import CheckRecord
from bioattn.errors import BioattnError
from bioattn.inference.inputs import python_call

__all__ = ["CheckRecord", "check"]


def check(model: Any, inputs: Any, *, dataset: Path | str | None, samples: int, seed: int) -> CheckRecord:
    """The record of a check, as `CheckedModel.check`."""
    if not isinstance(inputs, Path | str):
        raise BioattnError(f"a {model.family} model is checked on a file; give its path")
    evidence = Evidence(dataset=None if dataset is None else Path(dataset))
    with python_call():
        return check_model(model, Path(inputs), evidence, settings=CheckSettings(samples=samples, seed=seed))
