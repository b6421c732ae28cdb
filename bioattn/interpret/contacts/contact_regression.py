"""How much each attention head of a model tells of contacts, as a JSON file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bioattn import __version__
from bioattn.errors import FormatError, SettingsError
from bioattn.io.files import read_json, write_json
from bioattn.text import some

REGRESSION_FORMAT = "bioattn-contact-regression"
REGRESSION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactRegression:
    """How much each head tells of contacts."""

    model_sha256: str
    """The model whose heads these are."""
    weights: dict[str, list[float]]
    """By site, one weight per head; of the corrected maps as they are."""
    intercept: float
    proteins: tuple[str, ...]
    """What it was fitted on."""
    inverse_strength: float

    @property
    def num_heads_used(self) -> int:
        """Heads whose weight is not 0."""
        return sum(weight != 0 for heads in self.weights.values() for weight in heads)


def require_regression_name(output: Path) -> None:
    """Raises: SettingsError when the name promises something else than JSON."""
    if not output.name.endswith((".json", ".json.gz")):
        raise SettingsError(f"--output {output}: --fit writes a regression as JSON; end its name in .json")


def write_regression(path: Path, regression: ContactRegression) -> None:
    """Write a regression as JSON. Raises: BioattnError when it cannot be written."""
    write_json(
        path,
        {
            "format": REGRESSION_FORMAT,
            "format_version": REGRESSION_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_sha256": regression.model_sha256,
            "inverse_strength": regression.inverse_strength,
            "proteins": list(regression.proteins),
            "intercept": regression.intercept,
            "weights": regression.weights,
        },
    )


def read_regression(path: Path) -> ContactRegression:
    """Read what `write_regression` wrote. Raises: FormatError when it is anything else."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != REGRESSION_FORMAT:
        raise FormatError(
            f"{path}: is no contact regression; make one with `bioattn export contacts ATTENTION --fit DATASET`"
        )
    if content.get("format_version") != REGRESSION_VERSION:
        raise FormatError(
            f"{path}: has format version {content.get('format_version')}, this bioattn reads {REGRESSION_VERSION}"
        )
    try:
        weights = {
            str(site): [_finite(weight) for weight in heads] for site, heads in content["weights"].items()
        }
        return ContactRegression(
            model_sha256=str(content["model_sha256"]),
            weights=weights,
            intercept=_finite(content["intercept"]),
            proteins=tuple(str(name) for name in content["proteins"]),
            inverse_strength=_finite(content["inverse_strength"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: is damaged or incomplete ({error}); make it again") from error


def describe_regression(path: Path) -> dict[str, Any]:
    """The main figures of a regression. Raises: FormatError when it is damaged."""
    regression = read_regression(path)
    return {
        "model_sha256": regression.model_sha256,
        "proteins": some(list(regression.proteins)),
        "sites": len(regression.weights),
        "heads": sum(len(heads) for heads in regression.weights.values()),
        "heads_in_use": regression.num_heads_used,
    }


def _finite(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number
