"""Clusters of alignment rows around sampled centres, and masked cells (AlphaFold 2 supplement 1.2.7).

Every row that is no centre belongs to the centre it agrees with in most cells; centres then speak for their
members through a profile and a mean number of deletions. Memory is bounded. Masking replaces cells by the mask,
another residue or themselves.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.alignments.alphabet import GAP, MASK, NUM_MSA_CLASSES, NUM_PROFILE_CLASSES, RESIDUES

_ROWS_PER_BLOCK = 2048
_COLUMNS_PER_BLOCK = 64
_CELLS_PER_COUNT = 1 << 22
# Classes that count as agreement: residues and unknown, but neither gap nor mask.
_AGREEING = np.eye(NUM_MSA_CLASSES, GAP, dtype=np.float32)


def assign_clusters(centres: NDArray[np.uint8], rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """For each row the centre with most equal cells; ties go to the first. Gaps and masked cells equal nothing.

    centres: (N, R) and rows: (S, R), classes 0..22. Returns (S,) indices into centres. Counted by blocked matrix
    products of one-hot rows, so memory is that of one block (about 20 MB) whatever S and R.
    """
    assignment = np.zeros(len(rows), np.int32)
    columns = range(0, centres.shape[1], _COLUMNS_PER_BLOCK)
    for first in range(0, len(rows), _ROWS_PER_BLOCK):
        block = rows[first : first + _ROWS_PER_BLOCK]
        agreement = np.zeros((len(block), len(centres)), np.float32)
        for column in columns:
            part = slice(column, column + _COLUMNS_PER_BLOCK)
            agreement += _one_hot(block[:, part]) @ _one_hot(centres[:, part]).T
        assignment[first : first + len(block)] = agreement.argmax(axis=1)
    return assignment


def cluster_profiles(
    centres: NDArray[np.uint8], rows: NDArray[np.uint8], assignment: NDArray[np.int32]
) -> NDArray[np.float32]:
    """(N, R, 23): in each column the part of each class among a centre and its members, gap and mask counted."""
    num_centres, num_columns = centres.shape
    cells = num_columns * NUM_MSA_CLASSES
    offsets = np.arange(num_columns, dtype=np.intp) * NUM_MSA_CLASSES
    order = np.argsort(assignment, kind="stable")
    bounds = np.searchsorted(assignment[order], np.arange(num_centres + 1))
    rows_per_count = max(1, _CELLS_PER_COUNT // max(1, num_columns))
    profiles = np.empty((num_centres, num_columns, NUM_MSA_CLASSES), np.float32)
    for index, centre in enumerate(centres):
        counts = np.bincount(centre + offsets, minlength=cells)
        members = order[bounds[index] : bounds[index + 1]]
        for first in range(0, len(members), rows_per_count):
            part = rows[members[first : first + rows_per_count]]
            counts += np.bincount((part + offsets).ravel(), minlength=cells)
        profiles[index] = counts.reshape(num_columns, NUM_MSA_CLASSES) / (1e-6 + 1 + len(members))
    return profiles


def cluster_deletion_means(
    centre_deletions: csr_array, row_deletions: csr_array, assignment: NDArray[np.int32]
) -> NDArray[np.float32]:
    """(N, R): mean number of deletions before each column over a centre, (N, R), and its members, of (S, R)."""
    num_centres, num_rows = centre_deletions.shape[0], row_deletions.shape[0]
    membership = csr_array(
        (np.ones(num_rows), (assignment, np.arange(num_rows))), shape=(num_centres, num_rows)
    )
    sums = (membership @ row_deletions + centre_deletions).toarray()
    sizes = np.bincount(assignment, minlength=num_centres)
    means: NDArray[np.float32] = (sums / (1e-6 + 1 + sizes)[:, None]).astype(np.float32)
    return means


def _one_hot(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(rows, columns) classes as (rows, columns * 21) zeros and ones."""
    flat: NDArray[np.float32] = _AGREEING[codes].reshape(len(codes), -1)
    return flat


UNIFORM_FRACTION = 0.1
PROFILE_FRACTION = 0.1
SAME_FRACTION = 0.1
MASK_FRACTION = 1 - UNIFORM_FRACTION - PROFILE_FRACTION - SAME_FRACTION
"""Of the chosen cells, the parts drawn uniformly from the 20 residues, drawn from the column's profile, left as
they were, and masked."""


def replacement_probabilities(
    codes: NDArray[np.integer], profile: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Probability of each of the 23 classes for chosen cells: shape (*codes.shape, 23), each row sums to 1.

    codes: classes 0..21 of the cells. profile: (*codes.shape, 22), or what broadcasts to it: the profile of the
    column each cell stands in.
    """
    probabilities = np.zeros((*codes.shape, NUM_MSA_CLASSES))
    probabilities[..., : len(RESIDUES)] = UNIFORM_FRACTION / len(RESIDUES)
    probabilities[..., :NUM_PROFILE_CLASSES] += PROFILE_FRACTION * profile
    own = codes[..., None].astype(np.intp)
    np.put_along_axis(
        probabilities, own, np.take_along_axis(probabilities, own, axis=-1) + SAME_FRACTION, axis=-1
    )
    probabilities[..., MASK] = MASK_FRACTION
    return probabilities


def mask_msa(
    msa: NDArray[np.uint8], profile: NDArray[np.floating], fraction: float, random: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Replace a random `fraction` of all cells, gaps and the first row included.

    msa: (S, R) classes 0..21; profile: (R, 22). Returns the new MSA (classes 0..22) and which cells were chosen,
    whether or not the draw left them as they were: those a model is asked to restore.
    """
    chosen = random.random(msa.shape) < fraction
    cells = msa[chosen]
    cumulative = replacement_probabilities(cells, profile[np.nonzero(chosen)[1]]).cumsum(axis=-1)
    draw = random.random(len(cells)) * cumulative[:, -1]
    masked = msa.copy()
    # The last class is the mask, so rounding at the upper end cannot give a class without probability.
    masked[chosen] = (cumulative[:, :-1] <= draw[:, None]).sum(axis=-1)
    return masked, chosen
