"""Clusters of alignment rows around sampled centres (AlphaFold 2 supplement 1.2.7), in bounded memory.

Every row that is no centre belongs to the centre it agrees with in most cells; centres then speak for their
members through a profile and a mean number of deletions.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.alignments.alphabet import GAP, NUM_MSA_CLASSES

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
