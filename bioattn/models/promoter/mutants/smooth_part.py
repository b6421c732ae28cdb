"""Interpolation of a smooth function of a few small variables, to float32 accuracy.

Far from its position a mutation acts through four small numbers (`cross_fields`). Over the range of the mutants of
neighbouring bins a polynomial in those numbers is as exact as float32. So the function is computed for some
mutants (nodes), chosen so that the values of all others are weighted sums of theirs.

Shape suffixes: M mutants, V variables, N nodes, Q monomials.
"""

import math
from itertools import combinations_with_replacement

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

DEGREE = 4
TOLERANCE = 2e-7
"""Relative error of one value; float32 rounds to 6e-8."""
_LARGEST_SUM = (TOLERANCE * math.factorial(DEGREE + 1)) ** (1 / (DEGREE + 1))
"""Up to this sum of the variables' sizes what is left out, x^5 / 5!, is below the tolerance."""


def smooth_rows(variables_MV: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which mutants are close enough to the middle of all for the polynomial, (M,).

    variables_MV: scaled so that a change by 1 changes the logarithm of the function, or the function, by about 1.
    """
    centred_MV = variables_MV - np.median(variables_MV, axis=0)
    close: NDArray[np.bool_] = np.abs(centred_MV).sum(axis=1) <= _LARGEST_SUM
    return close


def interpolation(variables_MV: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The mutants to compute (N,), and the weights (M, N) by which their values give those of all M mutants.

    The nodes are the pivots of a QR decomposition of the mutants' monomials, so that none of the sums has large
    terms that cancel (Cheng et al. 2005, interpolative decomposition).
    """
    monomials_MQ = _monomials(variables_MV - variables_MV.mean(axis=0))
    _, triangle, pivots = scipy.linalg.qr(monomials_MQ.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    count = max(1, int((sizes > TOLERANCE).sum()))
    weights_MN = np.zeros((len(variables_MV), count))
    weights_MN[pivots[:count]] = np.eye(count)
    solved = scipy.linalg.solve_triangular(triangle[:count, :count], triangle[:count, count:])
    weights_MN[pivots[count:]] = solved.T
    return pivots[:count].astype(np.int64), weights_MN


def _monomials(variables_MV: NDArray[np.float64]) -> NDArray[np.float64]:
    """All products of up to `DEGREE` variables, each over the factorials of its powers, (M, Q)."""
    columns = [np.ones(len(variables_MV))]
    for degree in range(1, DEGREE + 1):
        for chosen in combinations_with_replacement(range(variables_MV.shape[1]), degree):
            powers = np.bincount(chosen)
            columns.append(
                np.prod(variables_MV[:, chosen], axis=1)
                / math.prod(math.factorial(power) for power in powers)
            )
    return np.stack(columns, axis=1)
