"""The interval of the contact benchmark."""

from pathlib import Path

import numpy as np
import pytest


def test_bootstrap_interval_is_that_of_the_mean(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from contacts import bootstrap_interval

    values = np.random.default_rng(2).normal(0.4, 0.1, 400)
    low, high = bootstrap_interval(list(values))
    assert low == pytest.approx(values.mean() - 1.96 * values.std() / 20, abs=2e-3)
    assert high == pytest.approx(values.mean() + 1.96 * values.std() / 20, abs=2e-3)
    assert bootstrap_interval([0.3] * 5) == pytest.approx((0.3, 0.3))
