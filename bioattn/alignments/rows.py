"""Rows and columns of an alignment: finding the query, filters (gaps, duplicates, identity, depth), statistics.

Filters take match columns as codes 0..21 (`msa_codes`), shape (S, R), row 0 being the query, and give positions
to keep, ascending; row 0 is always among them. Unknown letters count as gaps, as in hhfilter. Thinning by the
identity between rows is in `weights`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import NUM_PROFILE_CLASSES, UNKNOWN
from bioattn.alignments.choices import WEIGHT_IDENTITY
from bioattn.alignments.weights import sequence_weights
from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.text import listed, percentage

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


def count_residues(codes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Count the residues of each row, shape (S,)."""
    counts: NDArray[np.intp] = np.count_nonzero(codes < UNKNOWN, axis=1)
    return counts


def count_identities(codes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Count the residues of each row that equal the query's in the same column, shape (S,)."""
    counts: NDArray[np.intp] = np.count_nonzero((codes == codes[0]) & (codes < UNKNOWN), axis=1)
    return counts


def identity_to_query(codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Fraction of each row's residues that equal the query's, shape (S,); 0 for a row without residues.

    A residue where the query has a gap counts as different.
    """
    identity: NDArray[np.float64] = count_identities(codes) / np.maximum(count_residues(codes), 1)
    return identity


def columns_within_gaps(codes: NDArray[np.uint8], max_gap: float) -> NDArray[np.intp]:
    """Columns in which at most `max_gap` (0 to 1) of the rows have no residue."""
    gaps = np.count_nonzero(codes >= UNKNOWN, axis=0)
    return np.flatnonzero(gaps <= max_gap * len(codes) + _ROUNDING)


def rows_with_residues(codes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Rows with a residue in at least one column."""
    return _with_query(count_residues(codes) > 0)


def rows_within_gaps(codes: NDArray[np.uint8], max_gap: float) -> NDArray[np.intp]:
    """Rows in which at most `max_gap` (0 to 1) of the columns have no residue: hhfilter -cov, turned round."""
    gaps = codes.shape[1] - count_residues(codes)
    return _with_query(gaps <= max_gap * codes.shape[1] + _ROUNDING)


def rows_near_query(codes: NDArray[np.uint8], min_identity: float) -> NDArray[np.intp]:
    """Rows with more than `min_identity` (0 to 1) of their residues equal to the query's: hhfilter -qid.

    Exactly: fewer than ⌊(0.9999 − min_identity)·n + 0.9999⌋ of the n residues of a row differ, in single
    precision. A row on the threshold is out.
    """
    if min_identity <= 0:
        return np.arange(len(codes))
    num_residues = count_residues(codes)
    part = np.float32(0.9999 - 0.01 * float(np.float32(100 * min_identity)))
    allowed = part * num_residues.astype(np.float32)
    different = num_residues - count_identities(codes)
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


FORMAT = "bioattn-msa-statistics"
FORMAT_VERSION = 1
HISTOGRAM_BINS = 20
MIN_NEFF = 30
"""AlphaFold 2 loses much of its accuracy below about 30 effective sequences (Jumper et al. 2021, fig. 5a)."""
ALONE = "one distinct row only: there is nothing to tell contacts from, whatever a model predicts"
MIN_AGREEMENT = 2.0
"""Rows that agree less than so many times what chance makes of their composition are not of one family."""
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentStatistics:
    """Figures of one alignment; R columns, row 0 the query. Weighted figures use the sequence weights."""

    depth: int
    columns: int
    neff: float
    """Sum of the sequence weights."""
    weight_identity: float
    """Identity from which on rows share their weight."""
    coverage: NDArray[np.float64]
    """(R,) part of the rows with a residue in the column."""
    query_identity: NDArray[np.float64]
    """(S − 1,) identity of the other rows to the query, see `identity_to_query`."""
    pair_identity: float | None
    """Weighted part of equal residues, over all pairs of rows and the columns both cover; None: no pair."""
    chance_identity: float
    """The same for residues drawn independently from the alignment's weighted composition."""

    def warnings(self) -> list[str]:
        """List the reasons not to expect contacts from this alignment, a sentence each."""
        sentences = []
        if self.pair_identity is not None and self.pair_identity < MIN_AGREEMENT * self.chance_identity:
            sentences.append(
                "the rows carry no common signal: two of them agree in "
                f"{percentage(self.pair_identity, 1)} of the residues, chance alone gives "
                f"{percentage(self.chance_identity, 1)} (median identity to the query "
                f"{np.median(self.query_identity):.2f}); they hardly are a family, look at how they were found"
            )
        if self.depth == 1:
            sentences.append(ALONE)
        elif self.neff < MIN_NEFF:
            sentences.append(
                f"only {self.neff:.1f} effective sequences; below about {MIN_NEFF} contacts are often wrong, also "
                "those predicted with a high probability: search a larger database or more widely"
            )
        return sentences

    def as_json(self) -> dict[str, Any]:
        """For `write_json`; docs/formats/msa.md says what each entry is."""
        counts, edges = np.histogram(self.query_identity, bins=HISTOGRAM_BINS, range=(0, 1))
        return {
            "depth": self.depth,
            "columns": self.columns,
            "neff": _rounded(self.neff),
            "weight_identity": self.weight_identity,
            "gaps": _rounded(1 - float(self.coverage.mean())),
            "median_query_identity": _rounded(np.median(self.query_identity)) if self.depth > 1 else None,
            "query_identity_histogram": {"edges": _list(edges), "rows": counts.tolist()},
            "pair_identity": None if self.pair_identity is None else _rounded(self.pair_identity),
            "chance_identity": _rounded(self.chance_identity),
            "coverage": _list(self.coverage),
        }


def alignment_statistics(
    codes: NDArray[np.uint8], weights: NDArray[np.floating], weight_identity: float
) -> AlignmentStatistics:
    """Figures of codes (S, R), row 0 being the query; weights: (S,) of `sequence_weights` at `weight_identity`."""
    rows, columns = codes.shape
    counts = np.zeros(columns, np.int64)
    weighted = np.zeros((columns, NUM_PROFILE_CLASSES))
    squared = np.zeros(columns)
    offsets = np.arange(columns) * NUM_PROFILE_CLASSES
    for start in range(0, rows, _ROWS_AT_ONCE):
        part = codes[start : start + _ROWS_AT_ONCE]
        weight = np.asarray(weights[start : start + _ROWS_AT_ONCE], np.float64)
        is_residue = part < UNKNOWN
        counts += np.count_nonzero(is_residue, axis=0)
        squared += weight**2 @ is_residue
        weighted += np.bincount(
            (part + offsets).ravel(), weights=np.repeat(weight, columns), minlength=weighted.size
        ).reshape(weighted.shape)
    weighted = weighted[:, :UNKNOWN]
    depth_of_column = weighted.sum(axis=1)
    pairs = float((depth_of_column**2 - squared).sum())
    equal = float((weighted**2).sum() - squared.sum())
    composition = weighted.sum(axis=0) / max(float(weighted.sum()), 1e-300)
    return AlignmentStatistics(
        depth=rows,
        columns=columns,
        neff=float(np.sum(weights)),
        weight_identity=weight_identity,
        coverage=counts / rows,
        query_identity=identity_to_query(codes)[1:],
        pair_identity=equal / pairs if pairs > 1e-9 * depth_of_column.sum() ** 2 else None,
        chance_identity=float((composition**2).sum()),
    )


def statistics_of_rows(codes: NDArray[np.uint8]) -> AlignmentStatistics:
    """Figures of distinct rows (S, R), row 0 the query; rows without a residue are left out."""
    codes = codes[rows_with_residues(codes)]
    return alignment_statistics(codes, sequence_weights(codes), WEIGHT_IDENTITY)


def _rounded(number: float | np.floating[Any]) -> float:
    """Six digits: sums of many weights may differ in the last ones between machines."""
    return float(f"{number:.6g}")


def _list(numbers: NDArray[np.floating[Any]]) -> list[float]:
    return [_rounded(number) for number in numbers]
