"""The L1 logistic regression against scikit-learn, its optimality conditions, and where it must stay empty."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from bioattn.interpret.contacts.sparse_logistic import fit_sparse_logistic


def problem(number: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features, of which four matter, and labels of which some tenths are true."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(number, 3)) @ random.normal(size=(3, width))
    features = (0.7 * shared + random.normal(size=(number, width))).astype(np.float32)
    logits = features[:, :4] @ random.normal(size=4) * 2 - 3
    return features, random.random(number) < 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(
    ("number", "width", "inverse_strength"), [(500, 8, 0.15), (3000, 30, 0.05), (2000, 40, 5.0)]
)
def test_the_weights_are_those_of_scikit_learn(number: int, width: int, inverse_strength: float) -> None:
    features, labels = problem(number, width, seed=width)
    weights, intercept = fit_sparse_logistic(features, labels, inverse_strength)
    reference = LogisticRegression(
        l1_ratio=1.0, solver="saga", C=inverse_strength, tol=1e-8, max_iter=20_000, random_state=0
    ).fit(features.astype(np.float64), labels)
    np.testing.assert_allclose(weights, reference.coef_[0], atol=2e-3)
    assert intercept == pytest.approx(reference.intercept_[0], abs=2e-3)


@pytest.mark.parametrize("inverse_strength", [0.001, 0.02, 1.0])
def test_no_direction_lowers_the_objective(inverse_strength: float) -> None:
    """0 lies in the subgradient: the loss falls by 1 per weight in use and by less for the others."""
    features, labels = problem(4000, 25, seed=3)
    weights, intercept = fit_sparse_logistic(features, labels, inverse_strength)
    chances = 1 / (1 + np.exp(-(features.astype(np.float64) @ weights + intercept)))
    slope = inverse_strength * features.astype(np.float64).T @ (chances - labels)
    used = weights != 0
    assert 0 < used.sum() < 25 or inverse_strength == 1.0
    np.testing.assert_allclose(slope[used], -np.sign(weights[used]), atol=2e-3)
    assert (np.abs(slope[~used]) <= 1 + 2e-3).all()
    assert abs((chances - labels).sum() * inverse_strength) < 2e-3


def test_a_strong_penalty_and_empty_features_leave_the_share_of_positives() -> None:
    features, labels = problem(1000, 5, seed=1)
    weights, intercept = fit_sparse_logistic(features, labels, 1e-5)
    assert not weights.any()
    assert 1 / (1 + np.exp(-intercept)) == pytest.approx(labels.mean(), rel=1e-3)
    features[:, 2] = 0
    weights, _ = fit_sparse_logistic(features, labels, 1.0)
    assert weights[2] == 0
    assert np.isfinite(weights).all()


def test_separable_labels_stay_finite() -> None:
    features = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    weights, intercept = fit_sparse_logistic(features, features[:, 0] > 0.1, 10.0)
    assert np.isfinite([*weights, intercept]).all()
    assert ((features[:, 0] * weights[0] + intercept > 0) == (features[:, 0] > 0.1)).mean() > 0.98
