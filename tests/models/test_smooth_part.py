"""Interpolation of smooth functions of few small numbers."""

import numpy as np

from bioattn.models.promoter.mutants.smooth_part import interpolation, smooth_rows


def test_a_smooth_function_follows_from_few_of_its_values() -> None:
    random = np.random.default_rng(0)
    variables = random.normal(0, 0.02, (300, 4)) + 0.3
    rows = smooth_rows(variables)
    assert rows.mean() > 0.9
    variables = variables[rows]
    slopes = random.uniform(-1, 1, (50, 4))

    nodes, weights = interpolation(variables)

    values = np.exp(variables @ slopes.T)
    assert len(nodes) < len(variables) / 2
    assert np.abs(weights).max() < 10
    np.testing.assert_allclose(weights @ values[nodes], values, rtol=2e-6)


def test_one_point_needs_one_node() -> None:
    nodes, weights = interpolation(np.full((5, 4), 0.1))
    assert len(nodes) == 1
    np.testing.assert_allclose(weights, np.ones((5, 1)))


def test_what_is_far_from_the_rest_is_not_smooth() -> None:
    variables = np.zeros((20, 4))
    variables[3, 1] = 0.5
    assert smooth_rows(variables).tolist() == [row != 3 for row in range(20)]
