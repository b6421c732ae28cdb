"""Couplings between columns of an alignment: mutual information, mean-field DCA, the shrunk inverse covariance.

All start from the weighted frequencies of 21 states (20 amino acids and the gap; X counts as a gap) in columns
and in pairs of columns, and end in symmetric (R, R) maps whose diagonal is 0. `covariance_features` gives three
of them in units of their spread, for models that take pair features.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from bioattn.errors import BioattnError

NUM_STATES = 21
GAP = 20
"""The state of a gap among the 21; amino acids 0..19 are in the models' order, ARNDCQEGHILKMFPSTWYV."""

LIGHT_PSEUDOCOUNT = 0.005
"""Share of uniform frequencies with which mutual information finds contacts best."""
MAX_COLUMNS = 1200
"""Above, the (20 R)² matrices would need more than 10 GB."""

_BLOCK = 4096
"""Rows turned into one-hot vectors at a time."""


def column_states(codes_SR: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Model codes (S, R), 0..19 amino acids, 20 X, 21 gap, as the 21 states of this file."""
    states: NDArray[np.uint8] = np.minimum(codes_SR, GAP).astype(np.uint8)
    return states


def pair_frequencies(
    states_SR: NDArray[np.uint8], weights_S: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted frequencies of states in columns (R, 21) and of pairs of states in pairs of columns (R, 21, R, 21).

    Raises: BioattnError when the alignment is wider than `MAX_COLUMNS`.
    """
    rows, columns = states_SR.shape
    if columns > MAX_COLUMNS:
        raise BioattnError(
            f"couplings between {columns} columns would need {(NUM_STATES * columns) ** 2 * 16 / 1e9:.0f} GB; "
            f"at most {MAX_COLUMNS} columns are taken: drop gappy ones (bioattn prepare msa --max-gap-column)"
        )
    weights_S = np.ones(rows) if weights_S is None else np.asarray(weights_S, np.float64)
    root_S = np.sqrt(weights_S / weights_S.sum()).astype(np.float32)
    pairs = np.zeros((columns * NUM_STATES, columns * NUM_STATES), np.float32)
    every_state = np.arange(NUM_STATES, dtype=np.uint8)
    for first in range(0, rows, _BLOCK):
        block = slice(first, first + _BLOCK)
        one_hot = (states_SR[block, :, None] == every_state).astype(np.float32) * root_S[block, None, None]
        flat = one_hot.reshape(len(one_hot), -1)
        pairs += flat.T @ flat
    pair_RARA = pairs.reshape(columns, NUM_STATES, columns, NUM_STATES).astype(np.float64)
    single_RA = np.einsum("iaia->ia", pair_RARA).copy()
    return single_RA, pair_RARA


def with_pseudocount(
    single_RA: NDArray[np.float64], pair_RARA: NDArray[np.float64], share: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Frequencies mixed with `share` of uniform ones; within a column different states still never meet."""
    columns = len(single_RA)
    single_RA = (1 - share) * single_RA + share / NUM_STATES
    pair_RARA = (1 - share) * pair_RARA + share / NUM_STATES**2
    own = np.arange(columns)
    pair_RARA[own, :, own, :] = single_RA[:, :, None] * np.eye(NUM_STATES)
    return single_RA, pair_RARA


def average_product_correction(map_RR: NDArray[np.floating]) -> NDArray[np.float64]:
    """Subtract row mean × column mean / mean, which is what one column shares with all others (Dunn et al. 2008).

    Means are over the pairs off the diagonal, which becomes 0. A map that is 0 everywhere stays so.
    """
    corrected = np.array(map_RR, np.float64)
    columns = len(corrected)
    np.fill_diagonal(corrected, 0)
    mean_R = corrected.sum(0) / max(1, columns - 1)
    mean = mean_R.mean() if columns else 0.0
    if mean != 0:
        corrected -= np.outer(mean_R, mean_R) / mean
    np.fill_diagonal(corrected, 0)
    return corrected


def mutual_information(
    single_RA: NDArray[np.float64], pair_RARA: NDArray[np.float64], *, pseudocount: float
) -> NDArray[np.float64]:
    """Mutual information of pairs of columns in nats (R, R), over 21 states, without correction.

    single_RA, pair_RARA: of `pair_frequencies`.
    """
    single_RA, pair_RARA = with_pseudocount(single_RA, pair_RARA, pseudocount)
    log_RA = np.log(np.maximum(single_RA, 1e-300))
    information = np.empty((len(single_RA), len(single_RA)))
    for i, pair_ARA in enumerate(pair_RARA):
        ratio = np.log(np.maximum(pair_ARA, 1e-300)) - log_RA[i][:, None, None] - log_RA[None]
        information[i] = (pair_ARA * ratio).sum((0, 2))
    np.fill_diagonal(information, 0)
    return information


def mean_field_couplings(
    single_RA: NDArray[np.float64], pair_RARA: NDArray[np.float64], *, pseudocount: float = 0.5
) -> NDArray[np.float64]:
    """Mean-field direct couplings J (R, 20, R, 20): minus the inverse covariance of the first 20 states (Morcos et
    al. 2011)."""
    columns, kept = len(single_RA), NUM_STATES - 1
    single_RA, pair_RARA = with_pseudocount(single_RA, pair_RARA, pseudocount)
    covariance = pair_RARA[:, :kept, :, :kept] - np.multiply.outer(single_RA[:, :kept], single_RA[:, :kept])
    flat = covariance.reshape(columns * kept, columns * kept)
    return -_inverse(flat).reshape(columns, kept, columns, kept)


def coupling_norms(couplings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Frobenius norms (R, R) of coupling blocks (R, 20, R, 20) in the zero-sum gauge of 21 states."""
    columns = len(couplings)
    full = np.zeros((columns, columns, NUM_STATES, NUM_STATES))
    full[:, :, : NUM_STATES - 1, : NUM_STATES - 1] = couplings.transpose(0, 2, 1, 3)
    full -= full.mean(2, keepdims=True)
    full -= full.mean(3, keepdims=True)
    norms: NDArray[np.float64] = np.sqrt((full**2).sum((2, 3)))
    np.fill_diagonal(norms, 0)
    return norms


def shrunk_inverse_covariance(
    single_RA: NDArray[np.float64], pair_RARA: NDArray[np.float64], *, shrinkage: float
) -> NDArray[np.float64]:
    """Inverse of the covariance of the 21 R one-hot variables, shrunk towards its mean variance (R, 21, R, 21).

    `shrinkage` in (0, 1] is the share of the target, mean variance × identity (Ledoit & Wolf 2004). As the PSICOV
    and trRosetta features do; the diagonal target makes all 21 states invertible.
    """
    columns = len(single_RA)
    size = columns * NUM_STATES
    covariance = (pair_RARA - np.multiply.outer(single_RA, single_RA)).reshape(size, size)
    target = float(np.trace(covariance)) / size
    shrunk = (1 - shrinkage) * covariance + shrinkage * max(target, 1e-6) * np.eye(size)
    return _inverse(shrunk).reshape(columns, NUM_STATES, columns, NUM_STATES)


FEATURE_NAMES = ("mean-field couplings", "mutual information", "shrunk inverse covariance")
"""What the channels of `covariance_features` are."""
FEATURE_SHRINKAGE = 0.1
"""How far the covariance is shrunk for the last of them."""


def covariance_features(
    states_SR: NDArray[np.uint8], weights_S: NDArray[np.floating] | None = None
) -> NDArray[np.float32]:
    """Three APC-corrected maps (R, R, 3), see `FEATURE_NAMES`, in units of their root mean square.

    The last is the norm of the blocks of the inverse covariance without gaps, as in PSICOV (Jones et al. 2012).
    """
    single_RA, pair_RARA = pair_frequencies(states_SR, weights_S)
    inverse = shrunk_inverse_covariance(single_RA, pair_RARA, shrinkage=FEATURE_SHRINKAGE)
    kept = NUM_STATES - 1
    maps = (
        coupling_norms(mean_field_couplings(single_RA, pair_RARA)),
        mutual_information(single_RA, pair_RARA, pseudocount=LIGHT_PSEUDOCOUNT),
        np.sqrt((inverse[:, :kept, :, :kept] ** 2).sum((1, 3))),
    )
    features = np.stack([average_product_correction(each) for each in maps], axis=-1)
    pairs = max(1, len(features) * (len(features) - 1))
    spread = np.sqrt((features**2).sum((0, 1)) / pairs)
    scaled: NDArray[np.float32] = (features / np.maximum(spread, 1e-12)).astype(np.float32)
    return scaled


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of a positive definite matrix by Cholesky factors, in half the time of a general one."""
    factor, problem = dpotrf(matrix, lower=1, clean=1)
    if problem:
        # Definite in exact arithmetic only.
        return np.asarray(np.linalg.inv(matrix), np.float64)
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse: NDArray[np.float64] = lower + np.tril(lower, -1).T
    return inverse
