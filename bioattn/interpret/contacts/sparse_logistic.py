"""Logistic regression with an L1 penalty, for few features and many examples.

Shape suffixes: N examples, F features.
"""

import logging
import math

import numpy as np
from numpy.typing import NDArray

LOGGER = logging.getLogger("bioattn")

MAX_STEPS = 100
MAX_SWEEPS = 200
TOLERANCE = 1e-3
"""Largest violation of the optimality conditions, whose scale is 1: the penalty's slope."""
BLOCK = 1 << 16


def fit_sparse_logistic(
    features_NF: NDArray[np.float32],
    labels_N: NDArray[np.bool_],
    inverse_strength: float,
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
