"""Intervals and tables of benchmarks."""

import numpy as np
import pytest

from benchmarks.common import mean_interval, table


def test_interval_is_that_of_the_mean():
    values = np.random.default_rng(2).normal(0.4, 0.1, 400)
    error = 1.96 * values.std() / 20
    assert mean_interval(values, 10_000) == pytest.approx(
        (values.mean() - error, values.mean() + error), abs=2e-3
    )
    assert mean_interval([0.3] * 5) == pytest.approx((0.3, 0.3))


def test_numbers_have_three_decimals():
    assert table(["a", "b"], [["x", 1 / 3], [2, ""]]) == "| a | b |\n| --- | --- |\n| x | 0.333 |\n| 2 |  |\n"
