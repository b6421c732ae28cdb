"""Filters for columns and rows of an alignment: gaps, duplicates, identity to the query, depth.

All functions take match columns as ASCII letters and gaps, shape (S, R), row 0 being the query, and give positions
to keep, ascending; row 0 is always among them. Letters that are no residue (J, O, X) count as gaps, B is read as
D, Z as E, U as C, all as in hhfilter. Thinning by the identity between rows is in `redundancy`.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import UNKNOWN, msa_codes

_ROUNDING = 1e-9
"""A fraction such as 0.7 stands for the number people mean by it."""
_ROWS_AT_ONCE = 4096


def count_residues(residues: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count the residues of each row, shape (S,)."""
    counts = np.empty(len(residues), np.int64)
    for rows in _blocks(len(residues)):
        counts[rows] = np.count_nonzero(msa_codes(residues[rows]) < UNKNOWN, axis=1)
    return counts


def count_identities(residues: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count the residues of each row that equal the query's in the same column, shape (S,)."""
    query = msa_codes(residues[0])
    counts = np.empty(len(residues), np.int64)
    for rows in _blocks(len(residues)):
        codes = msa_codes(residues[rows])
        counts[rows] = np.count_nonzero((codes == query) & (codes < UNKNOWN), axis=1)
    return counts


def identity_to_query(residues: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Fraction of each row's residues that equal the query's, shape (S,); 0 for a row without residues.

    A residue where the query has a gap counts as different.
    """
    identity: NDArray[np.float64] = count_identities(residues) / np.maximum(count_residues(residues), 1)
    return identity


def columns_within_gaps(residues: NDArray[np.uint8], max_gap: float) -> NDArray[np.intp]:
    """Columns in which at most `max_gap` (0 to 1) of the rows have no residue."""
    gaps = np.zeros(residues.shape[1], np.int64)
    for rows in _blocks(len(residues)):
        gaps += np.count_nonzero(msa_codes(residues[rows]) >= UNKNOWN, axis=0)
    return np.flatnonzero(gaps <= max_gap * len(residues) + _ROUNDING)


def rows_with_residues(residues: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Rows with a residue in at least one column."""
    return _with_query(count_residues(residues) > 0)


def rows_within_gaps(residues: NDArray[np.uint8], max_gap: float) -> NDArray[np.intp]:
    """Rows in which at most `max_gap` (0 to 1) of the columns have no residue: hhfilter -cov, turned round."""
    gaps = residues.shape[1] - count_residues(residues)
    return _with_query(gaps <= max_gap * residues.shape[1] + _ROUNDING)


def rows_near_query(residues: NDArray[np.uint8], min_identity: float) -> NDArray[np.intp]:
    """Rows with more than `min_identity` (0 to 1) of their residues equal to the query's: hhfilter -qid.

    Exactly: fewer than ⌊(0.9999 − min_identity)·n + 0.9999⌋ of the n residues of a row differ, in single
    precision. A row on the threshold is out.
    """
    if min_identity <= 0:
        return np.arange(len(residues))
    num_residues = count_residues(residues)
    allowed = np.float32(0.9999 - 0.01 * float(np.float32(100 * min_identity))) * num_residues.astype(
        np.float32
    )
    different = num_residues - count_identities(residues)
    return _with_query(different < np.trunc(allowed.astype(np.float64) + 0.9999))


def first_of_each(residues: NDArray[np.uint8]) -> NDArray[np.intp]:
    """The first of all rows that have the same letters and gaps in every column (insertions do not count)."""
    seen: dict[bytes, int] = {}
    for index, row in enumerate(np.ascontiguousarray(residues)):
        seen.setdefault(row.tobytes(), index)
    return np.fromiter(seen.values(), np.intp, len(seen))


def random_rows(num_rows: int, max_depth: int, random: np.random.Generator) -> NDArray[np.intp]:
    """Row 0 and `max_depth` − 1 others drawn without replacement, each equally likely; all if there are fewer.

    This is AlphaFold's sampling of rows, but the rows stay in their order.
    """
    if num_rows <= max_depth:
        return np.arange(num_rows)
    others = random.permutation(num_rows - 1)[: max_depth - 1] + 1
    return np.concatenate([[0], np.sort(others)])


def _with_query(keep: NDArray[np.bool_]) -> NDArray[np.intp]:
    keep[0] = True
    return np.flatnonzero(keep)


def _blocks(rows: int) -> list[slice]:
    """NumPy's intermediate results of a comparison are as large as its input: a few rows at a time."""
    return [slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE)]
