"""How much each attention head of a model tells of contacts: fitted, and as a JSON file.

Shape suffixes: N examples, F features.
"""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


LOGGER = logging.getLogger("bioattn")

MAX_STEPS = 100
MAX_SWEEPS = 200
TOLERANCE = 1e-3
"""Largest violation of the optimality conditions, whose scale is 1: the penalty's slope."""
BLOCK = 1 << 16


def fit_sparse_logistic(
    features_NF: NDArray[np.float32], labels_N: NDArray[np.bool_], inverse_strength: float
) -> tuple[NDArray[np.float64], float]:
    """Weights (F,) and intercept that minimise ‖w‖₁ + c Σ log(1 + exp(−y (x·w + b))), y = ±1; b is not penalised.

    c = `inverse_strength`: smaller = more weights are exactly 0. The penalty is on features as they are given:
    scale them first if their scales differ.

    Newton's method: each step minimises the second-order expansion of the loss plus the penalty, by coordinate
    descent, and goes as far as the objective falls (Lee, Sun, Saunders 2014, Proximal Newton-type methods).
    """
    number, width = features_NF.shape
    weights_F = np.zeros(width)
    share = min(max(float(labels_N.mean()), 1 / (number + 1)), number / (number + 1))
    intercept = math.log(share / (1 - share))
    objective = _objective(features_NF, labels_N, weights_F, intercept, inverse_strength)
    for _ in range(MAX_STEPS):
        gradient, curvature = _expansion(features_NF, labels_N, weights_F, intercept, inverse_strength)
        if _violation(gradient, weights_F) < TOLERANCE:
            return weights_F, intercept
        step = _penalised_step(gradient, curvature, np.append(weights_F, intercept))
        # How much the expansion promises, penalty included (Armijo's rule asks for a part of it).
        promise = float(gradient @ step) + np.abs(weights_F + step[:-1]).sum() - np.abs(weights_F).sum()
        length = 1.0
        while length > 1e-6:
            moved_F, moved = weights_F + length * step[:-1], intercept + length * step[-1]
            reached = _objective(features_NF, labels_N, moved_F, moved, inverse_strength)
            if reached <= objective + 1e-4 * length * promise:
                break
            length /= 2
        else:
            break  # rounding leaves nothing to gain
        weights_F, intercept, objective = moved_F, float(moved), reached
    else:
        LOGGER.warning(
            f"the logistic regression did not settle in {MAX_STEPS} steps; its last weights are kept"
        )
    return weights_F, intercept


def _objective(
    features_NF: NDArray[np.float32],
    labels_N: NDArray[np.bool_],
    weights_F: NDArray[np.float64],
    intercept: float,
    inverse_strength: float,
) -> float:
    logits = features_NF @ weights_F.astype(np.float32) + intercept
    loss = np.logaddexp(0, np.where(labels_N, -logits, logits), dtype=np.float64).sum()
    return float(inverse_strength * loss + np.abs(weights_F).sum())


def _expansion(
    features_NF: NDArray[np.float32],
    labels_N: NDArray[np.bool_],
    weights_F: NDArray[np.float64],
    intercept: float,
    inverse_strength: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient (F + 1,) and curvature (F + 1, F + 1) of the loss, the intercept last, some examples at a time."""
    width = len(weights_F)
    gradient, curvature = np.zeros(width + 1), np.zeros((width + 1, width + 1))
    for start in range(0, len(labels_N), BLOCK):
        block = features_NF[start : start + BLOCK].astype(np.float64)
        block = np.column_stack([block, np.ones(len(block))])
        chances = 1 / (1 + np.exp(-(block @ np.append(weights_F, intercept))))
        gradient += block.T @ (chances - labels_N[start : start + BLOCK])
        curvature += (block * (chances * (1 - chances))[:, None]).T @ block
    return inverse_strength * gradient, inverse_strength * curvature


def _violation(gradient: NDArray[np.float64], weights_F: NDArray[np.float64]) -> float:
    """How far the weights are from optimal: 0 lies in the subgradient of the objective."""
    slope = gradient[:-1]
    off = np.where(weights_F != 0, np.abs(slope + np.sign(weights_F)), np.maximum(np.abs(slope) - 1, 0))
    return float(max(off.max(initial=0.0), abs(gradient[-1])))


def _penalised_step(
    gradient: NDArray[np.float64], curvature: NDArray[np.float64], point: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The step d that minimises g·d + ½ d·H d + ‖w + d‖₁, coordinate by coordinate; the last is not penalised."""
    step = np.zeros_like(point)
    slope = gradient.copy()  # g + H d
    # A feature that is the same everywhere has no curvature and gets no weight.
    diagonal = np.maximum(np.diag(curvature), 1e-12)
    last = len(point) - 1
    for _ in range(MAX_SWEEPS):
        largest = 0.0
        for place in range(len(point)):
            target = point[place] + step[place] - slope[place] / diagonal[place]
            if place != last:
                target = math.copysign(max(abs(target) - 1 / diagonal[place], 0.0), target)
            change = target - point[place] - step[place]
            if change:
                step[place] += change
                slope += change * curvature[place]
                largest = max(largest, abs(change) * diagonal[place])
        if largest < TOLERANCE / 10:
            break
    return step
