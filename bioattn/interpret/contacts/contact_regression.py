"""How much each attention head of a model tells of contacts: fitted, and as a JSON file.

Shape suffixes: N examples, F features.
"""

import logging
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from bioattn import __version__
from bioattn.errors import FormatError
from bioattn.io.files import read_json, write_json
from bioattn.text import some

LOGGER = logging.getLogger("bioattn")

REGRESSION_FORMAT = "bioattn-contact-regression"
REGRESSION_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactRegression:
    """How much each head tells of contacts; a JSON file holds these fields."""

    model_sha256: str
    inverse_strength: float
    proteins: list[str]
    intercept: float
    weights: dict[str, list[float]]
    """By site, one weight per head; of the corrected maps as they are."""

    @property
    def num_heads_used(self) -> int:
        """Heads whose weight is not 0."""
        return sum(weight != 0 for heads in self.weights.values() for weight in heads)


def write_regression(path: Path, regression: ContactRegression) -> None:
    """Write a regression as JSON. Raises: BioattnError when it cannot be written."""
    header = {
        "format": REGRESSION_FORMAT,
        "format_version": REGRESSION_VERSION,
        "generated_by": f"bioattn {__version__}",
    }
    write_json(path, header | asdict(regression))


def read_regression(path: Path) -> ContactRegression:
    """Read a file of `write_regression`. Raises: FormatError when it is another or damaged."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != REGRESSION_FORMAT:
        raise FormatError(
            f"{path}: is no contact regression; make one with `bioattn export contacts ATTENTION --fit DATASET`"
        )
    try:
        return ContactRegression(
            model_sha256=str(content["model_sha256"]),
            weights={
                str(site): [_finite(weight) for weight in heads] for site, heads in content["weights"].items()
            },
            intercept=_finite(content["intercept"]),
            proteins=[str(name) for name in content["proteins"]],
            inverse_strength=_finite(content["inverse_strength"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path}: is damaged or incomplete ({error}); make it again") from error


def describe_regression(path: Path) -> dict[str, Any]:
    """The main figures of a regression. Raises: FormatError when it is damaged."""
    regression = read_regression(path)
    return {
        "model_sha256": regression.model_sha256,
        "proteins": some(regression.proteins),
        "sites": len(regression.weights),
        "heads": sum(map(len, regression.weights.values())),
        "heads_in_use": regression.num_heads_used,
    }


def _finite(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{value} is no number")
    return number


MAX_STEPS = 5000
TOLERANCE = 1e-3
"""Largest violation of the optimality conditions, whose scale is 1: the penalty's gradient."""
BLOCK = 1 << 16


def fit_sparse_logistic(
    features_NF: NDArray[np.float32], labels_N: NDArray[np.bool_], inverse_strength: float
) -> tuple[NDArray[np.float64], float]:
    """Weights (F,) and intercept that minimise ‖w‖₁ + c Σ log(1 + exp(−y (x·w + b))), y = ±1; b is not penalised.

    c = `inverse_strength`: smaller = more weights are exactly 0. The penalty is on features as they are given:
    scale them first if their scales differ.

    A weight is the difference of two parts that are not negative, whose sum is penalised; L-BFGS-B keeps them so.
    """
    number, width = features_NF.shape
    share = min(max(float(labels_N.mean()), 1 / (number + 1)), number / (number + 1))

    def objective(parts: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights_F, intercept = parts[:width] - parts[width:-1], parts[-1]
        loss, gradient_F, gradient = 0.0, np.zeros(width), 0.0
        for start in range(0, number, BLOCK):
            block = features_NF[start : start + BLOCK].astype(np.float64)
            labels = labels_N[start : start + BLOCK]
            logits = block @ weights_F + intercept
            loss += np.logaddexp(0, np.where(labels, -logits, logits)).sum()
            surplus = expit(logits) - labels
            gradient_F += surplus @ block
            gradient += surplus.sum()
        slopes = inverse_strength * np.concatenate([gradient_F, -gradient_F, [gradient]])
        slopes[:-1] += 1
        return parts[:-1].sum() + inverse_strength * loss, slopes

    found = minimize(
        objective,
        np.append(np.zeros(2 * width), math.log(share / (1 - share))),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * width) + [(None, None)],
        options={"gtol": TOLERANCE, "ftol": 0, "maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "maxcor": 30},
    )
    if found.nit >= MAX_STEPS:
        LOGGER.warning(
            f"the logistic regression did not settle in {MAX_STEPS} steps; its last weights are kept"
        )
    return found.x[:width] - found.x[width:-1], float(found.x[-1])
