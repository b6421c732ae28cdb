"""Finding the query of an alignment, and filters for its columns and rows: gaps, duplicates, identity, depth.

Filters take match columns as ASCII letters and gaps, shape (S, R), row 0 being the query, and give positions
to keep, ascending; row 0 is always among them. Letters that are no residue (J, O, X) count as gaps, B is read as
D, Z as E, U as C, all as in hhfilter. Thinning by the identity between rows is in `redundancy`.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import UNKNOWN, msa_codes
from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.text import listed

_SHOWN = 3
_RANGE = re.compile(r"/\d+-\d+$")


def find_name(names: Sequence[str], name: str, source: str) -> int:
    """Find the row called `name`: in full or, if one alone has it so, without `/start-end` or within `db|name|…`.

    Of rows with the same full name the first row of all is taken if it is among them. source: the file, as
    messages name it.

    Raises: BioattnError when no row or more than one is called so.
    """
    rows = [row for row, full in enumerate(names) if full == name]
    if len(rows) > 1 and rows[0] != 0:
        raise BioattnError(
            f"{source}: --query {name!r}: rows {listed([f'{row + 1:,}' for row in rows], _SHOWN)} are all called "
            "so; names of rows must differ for one to be chosen"
        )
    if rows:
        return rows[0]
    shortened = [_RANGE.sub("", full) for full in names]
    for called in (lambda short: short == name, lambda short: name in short.split("|")):
        rows = [row for row, short in enumerate(shortened) if called(short)]
        if len(rows) > 1:
            places = listed([f"{names[row]} (row {row + 1:,})" for row in rows], _SHOWN)
            raise BioattnError(f"{source}: --query {name!r} could be {places}; give the full name of one")
        if rows:
            return rows[0]
    raise not_there("--query", name, source, "row", names)


def centre_on_query(alignment: Alignment, query: int, source: str) -> Alignment:
    """The same rows, `query` first, with the query's residues as match columns and no others.

    `Alignment.centre_on_row` says what becomes of the letters of other columns.

    Raises: BioattnError when the query has no residue.
    """
    if not alignment.sequence(query):
        raise BioattnError(f"{source}: the query, {alignment.names[query]}, has no residue in the alignment")
    order = [query, *(row for row in range(alignment.num_rows) if row != query)]
    return alignment.select_rows(order).centre_on_row(0)


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
