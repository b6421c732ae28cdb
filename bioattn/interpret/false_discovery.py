"""Correction for many tests."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control


def benjamini_hochberg(p_values: NDArray[np.floating]) -> NDArray[np.float64]:
    """q-values of p-values, shape (n,): the smallest false discovery rate at which each is called (1995).

    NaN stands for a test that was not made; it stays NaN and does not count.

    >>> benjamini_hochberg(np.array([0.01, 0.02, 0.9, np.nan])).round(3).tolist()
    [0.03, 0.03, 0.9, nan]
    """
    q_values = np.full(p_values.shape, np.nan)
    tested = ~np.isnan(p_values)
    if tested.any():
        q_values[tested] = false_discovery_control(p_values[tested])
    return q_values
