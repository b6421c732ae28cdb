"""Couplings between columns of an alignment: mutual information, mean-field DCA, the shrunk inverse covariance.

All start from the weighted frequencies of 21 states (20 amino acids and the gap; X counts as a gap) in columns
and in pairs of columns, and end in symmetric (R, R) maps whose diagonal is 0. `covariance_features` gives three
of them in units of their spread, for models that take pair features.

One float32 matrix of (21 R)² numbers serves all: pairs of columns lie below its diagonal, and what is inverted is
written above it, where LAPACK works in place.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk
from scipy.linalg.lapack import spotrf, spotri

from bioattn.errors import BioattnError
from bioattn.system.memory import free_memory
from bioattn.text import human_bytes

NUM_STATES = 21
GAP = 20
"""The state of a gap among the 21; amino acids 0..19 are in the models' order, ARNDCQEGHILKMFPSTWYV."""

LIGHT_PSEUDOCOUNT = 0.005
"""Share of uniform frequencies with which mutual information finds contacts best."""
HEAVY_PSEUDOCOUNT = 0.5
"""Share of uniform frequencies of mean-field DCA (Morcos et al. 2011)."""

_BLOCK = 1024
"""Rows turned into one-hot vectors at a time."""


def column_states(codes_SR: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Model codes (S, R), 0..19 amino acids, 20 X, 21 gap, as the 21 states of this file."""
    states: NDArray[np.uint8] = np.minimum(codes_SR, GAP).astype(np.uint8)
    return states


def coupling_bytes(columns: int) -> int:
    """Peak memory of `covariance_features`, beside its input."""
    return 4 * NUM_STATES * columns * (NUM_STATES * columns + 4 * _BLOCK)


def pair_frequencies(
    states_SR: NDArray[np.uint8], weights_S: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Weighted frequencies of states in columns (R, 21) and of pairs of states in pairs of columns (21 R, 21 R).

    Of the pairs, those below the diagonal count; what lies above is scratch space.

    Raises: BioattnError with the estimate when less than `coupling_bytes` of memory is free.
    """
    rows, columns = states_SR.shape
    free = free_memory()
    if free is not None and coupling_bytes(columns) > free:
        raise BioattnError(
            f"couplings between {columns:,} columns need about {human_bytes(coupling_bytes(columns))} of memory, "
            f"{human_bytes(free)} are free"
        )
    weights_S = np.ones(rows) if weights_S is None else np.asarray(weights_S, np.float64)
    root_S = np.sqrt(weights_S / weights_S.sum()).astype(np.float32)
    size = columns * NUM_STATES
    pairs = np.zeros((size, size), np.float32)
    every_state = np.arange(NUM_STATES, dtype=np.uint8)
    for first in range(0, rows, _BLOCK):
        block = slice(first, first + _BLOCK)
        one_hot = (states_SR[block, :, None] == every_state) * root_S[block, None, None]
        # What lies below the diagonal here lies above it in Fortran's order.
        ssyrk(1, one_hot.reshape(-1, size).T, beta=1, c=pairs.T, lower=0, overwrite_c=1)
    single_RA = np.diagonal(pairs).astype(np.float64).reshape(columns, NUM_STATES)
    return single_RA, pairs


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
    single_RA: NDArray[np.float64], pairs: NDArray[np.float32], *, pseudocount: float
) -> NDArray[np.float64]:
    """Mutual information of pairs of columns in nats (R, R), over 21 states, without correction.

    single_RA, pairs: of `pair_frequencies`.
    """
    single_RA = _mixed(single_RA, pseudocount, NUM_STATES)
    log_RA = np.log(np.maximum(single_RA, 1e-300))
    information = np.zeros((len(single_RA),) * 2)
    for i, block in enumerate(_blocks(len(single_RA))):
        pair_AjA = _mixed(pairs[block, : block.start], pseudocount, NUM_STATES**2).reshape(
            NUM_STATES, i, NUM_STATES
        )
        ratio = np.log(np.maximum(pair_AjA, 1e-30)) - log_RA[i][:, None, None] - log_RA[None, :i]
        information[i, :i] = (pair_AjA * ratio).sum((0, 2))
    return information + information.T


def mean_field_norms(
    single_RA: NDArray[np.float64], pairs: NDArray[np.float32], *, pseudocount: float = HEAVY_PSEUDOCOUNT
) -> NDArray[np.float64]:
    """Frobenius norms (R, R) of mean-field direct couplings in the zero-sum gauge of 21 states, without APC.

    Couplings are minus the inverse of the covariance of states (Morcos et al. 2011). The covariance of all 21
    states of a column is singular along (1, …, 1); with a variance there, its inverse is in the zero-sum gauge.

    single_RA, pairs: of `pair_frequencies`.
    """
    mixed_RA = _mixed(single_RA, pseudocount, NUM_STATES)
    return _inverse_norms(mixed_RA, pairs, pseudocount, 0, 1 / NUM_STATES, NUM_STATES)


def _inverse_norms(
    single_RA: NDArray[np.float64],
    pairs: NDArray[np.float32],
    pseudocount: float,
    shrinkage: float,
    ones: float,
    kept: int,
) -> NDArray[np.float64]:
    """Norms of blocks of the inverse of a covariance, over the first `kept` states of each column.

    single_RA: with pseudocount. shrinkage: share of mean variance × identity (Ledoit & Wolf 2004). ones: what is
    added to all covariances within a column.
    """
    columns = len(single_RA)
    flat = single_RA.ravel()
    target = max(float((flat - flat**2).mean()), 1e-6)
    for i, block in enumerate(_blocks(columns)):
        covariance = _mixed(pairs[block, : block.start], pseudocount, NUM_STATES**2)
        covariance -= np.outer(flat[block], flat[: block.start])
        pairs[: block.start, block] = (1 - shrinkage) * covariance.T
        own = np.diag(single_RA[i]) - np.outer(single_RA[i], single_RA[i]) + ones
        pairs[block, block] = (1 - shrinkage) * own + shrinkage * target * np.eye(NUM_STATES)
    _, problem = spotrf(pairs.T, lower=1, clean=0, overwrite_a=1)
    if not problem:
        _, problem = spotri(pairs.T, lower=1, overwrite_c=1)
    if problem:
        raise BioattnError("the covariance of the columns cannot be inverted in single precision")
    norms = np.zeros((columns, columns))
    for i, block in enumerate(_blocks(columns)):
        inverse_jAA = pairs[: block.start, block].reshape(i, NUM_STATES, NUM_STATES)[:, :kept, :kept]
        norms[:i, i] = np.sqrt(np.square(inverse_jAA, dtype=np.float64).sum((1, 2)))
    return norms + norms.T


def _mixed(frequencies: NDArray[np.floating], share: float, number: int) -> NDArray[np.float64]:
    """Frequencies mixed with `share` of the uniform frequency of `number` states."""
    return (1 - share) * np.asarray(frequencies, np.float64) + share / number


def _blocks(columns: int) -> list[slice]:
    """The rows of each column of an alignment in the matrix of pairs."""
    return [slice(i * NUM_STATES, (i + 1) * NUM_STATES) for i in range(columns)]


FEATURE_NAMES = ("mean-field couplings", "mutual information", "shrunk inverse covariance")
"""What the channels of `covariance_features` are."""
FEATURE_SHRINKAGE = 0.1
"""How far the covariance is shrunk for the last of them, which leaves gaps out, as PSICOV (Jones et al. 2012) and
trRosetta do."""


def covariance_features(
    states_SR: NDArray[np.uint8], weights_S: NDArray[np.floating] | None = None
) -> NDArray[np.float32]:
    """Three APC-corrected maps (R, R, 3), see `FEATURE_NAMES`, in units of their root mean square.

    Raises: as `pair_frequencies`.
    """
    frequencies = pair_frequencies(states_SR, weights_S)
    maps = (
        mean_field_norms(*frequencies),
        mutual_information(*frequencies, pseudocount=LIGHT_PSEUDOCOUNT),
        _inverse_norms(*frequencies, 0, FEATURE_SHRINKAGE, 0, NUM_STATES - 1),
    )
    features = np.stack([average_product_correction(each) for each in maps], axis=-1)
    pairs = max(1, len(features) * (len(features) - 1))
    spread = np.sqrt((features**2).sum((0, 1)) / pairs)
    scaled: NDArray[np.float32] = (features / np.maximum(spread, 1e-12)).astype(np.float32)
    return scaled
