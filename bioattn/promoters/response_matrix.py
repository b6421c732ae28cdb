"""From responses as the tables have them to the target matrix of promoters × treatments."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.promoters.choices import DatasetSettings, Direction
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.responses import Measured, Responses, average_cells
from bioattn.promoters.treatments import TreatmentTable, average_features
from bioattn.text import counted, quoted


class AuditRow(NamedTuple):
    """One gene or treatment, kept or dropped."""

    kind: str
    """`gene` (of the promoters or the response tables), `treatment`, `sample` (a replicate) or `table row`."""
    name: str
    status: str
    """`kept` or `dropped`; samples are `averaged`, rows of the treatment table without responses `unused`."""
    reason: str = ""
    """Why it was dropped, or what is to be known about it, in a few fixed words."""
    split: str = ""
    values: int | None = None
    detail: str = ""


LOGGER = logging.getLogger("bioattn")

BY_NAME = "matched by common name"
"""A note of `join_promoters`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseMatrix(Measured):
    """Responses along promoters and treatments; NaN = missing. All arrays have shape (promoters, treatments)."""

    treatments: TreatmentTable

    @classmethod
    def of(cls, treatments: TreatmentTable, measured: Measured) -> "ResponseMatrix":
        return cls(treatments=treatments, **{name: getattr(measured, name) for name in Measured.__slots__})

    def select(self, promoters: NDArray[np.int64], treatments: NDArray[np.int64]) -> "ResponseMatrix":
        """Some promoters and treatments, in the order given."""
        chosen, names = np.ix_(promoters, treatments), self.treatments.names
        table = self.treatments.select([names[i] for i in treatments])
        return ResponseMatrix.of(table, self.changed(lambda each: each[chosen]))


def join_promoters(
    promoters: GeneNames, responses: Responses, table: TreatmentTable
) -> tuple[ResponseMatrix, list[AuditRow], list[str]]:
    """Bring responses into the order of the promoters; several rows for one promoter are averaged.

    `table` has the treatments of `responses`, in that order. Returns the matrix, an audit row for every response
    gene that found no promoter, and for every promoter a note on how its responses were found ("" = plainly).

    Raises: BioattnError when no gene of the tables has a promoter, showing the first names of both sides.
    """
    promoter_ids = promoters.ids
    promoter_of, reasons = promoters.match(responses.gene_ids)
    if (promoter_of < 0).all():
        advice = (
            "make promoters with the --id-attribute of the tables, or choose their ids with --gene-column"
        )
        if promoters.share(responses.treatments):
            advice = "their columns are named like promoters: transpose them, one row per gene"
        raise BioattnError(
            "no gene of the response tables is among the promoters: the tables have "
            f"{quoted(responses.gene_ids, 3)}, the promoters {quoted(promoter_ids, 3)}; {advice}"
        )
    rejected = [
        AuditRow("gene", gene, "dropped", reason)
        for gene, reason in zip(responses.gene_ids, reasons, strict=True)
        if reason
    ]
    matched = np.flatnonzero(promoter_of >= 0)
    target = promoter_of[matched]
    cells = [(target, responses.changed(lambda each: each[matched]))]
    means, _ = average_cells((len(promoter_ids), len(table.names)), cells)
    matrix = ResponseMatrix.of(table, means)
    notes = [""] * len(promoter_ids)
    sources: dict[int, list[str]] = {}
    for row, promoter in zip(matched.tolist(), target.tolist(), strict=True):
        sources.setdefault(promoter, []).append(responses.gene_ids[row])
    for promoter, names in sources.items():
        repeated = [name for name in names if name in responses.duplicated]
        if len(names) > 1:
            notes[promoter] = "averaged over rows"
        elif repeated:
            notes[promoter] = "averaged over repeated rows"
        elif names[0] != promoter_ids[promoter]:
            by_name = names[0].lower() in promoters.by_name
            notes[promoter] = BY_NAME if by_name else "matched by another spelling or version"
    return matrix, rejected, notes


def sum_isoforms(promoters: GeneNames, counts: Responses) -> Responses:
    """Counts in which the rows of one promoter are one row, their sum, under its id."""
    promoter_of, _ = promoters.match(counts.gene_ids)
    several = {place for place, number in Counter(promoter_of.tolist()).items() if place >= 0 and number > 1}
    if not several:
        return counts
    LOGGER.warning(
        f"the counts of {np.isin(promoter_of, list(several)).sum():,} rows are summed into "
        f"{counted(len(several), 'gene')}: {quoted([promoters.ids[place] for place in several])}"
    )
    pairs = zip(counts.gene_ids, promoter_of.tolist(), strict=True)
    names = [promoters.ids[place] if place in several else gene for gene, place in pairs]
    sums = pd.DataFrame(counts.values).groupby(names, sort=False).sum(min_count=1)
    return replace(counts, gene_ids=list(sums.index), values=sums.to_numpy())


def replicate_groups(table: TreatmentTable, column: str) -> list[str]:
    """The value of every sample in a column of the treatment table.

    Raises: BioattnError when there is no such column, or a sample has no value in it.
    """
    if not table.columns:
        raise BioattnError(
            f"--replicate-column {column}: there is no treatment table with features; give --treatment-table"
        )
    if column not in table.columns:
        raise BioattnError(
            f"--replicate-column: the treatment table has no column {column!r}; it has {quoted(table.columns, 20)}"
        )
    numeric = table.is_numeric(column)
    groups = [("" if np.isnan(v) else f"{v:g}") if numeric else str(v) for v in table.frame[column]]
    without = [name for name, group in zip(table.names, groups, strict=True) if not group]
    if without:
        raise BioattnError(
            f"--replicate-column: {quoted(without)} has no value in the column {column!r}; fill it in"
        )
    return groups


def average_replicates(
    matrix: ResponseMatrix, groups: Sequence[str]
) -> tuple[ResponseMatrix, list[AuditRow], dict[str, list[str]]]:
    """Average the samples of one group into one treatment of that name; `groups` has the name for every sample.

    Missing values are left out of the mean. Returns the matrix, an audit row per sample, and the
    features that were left out because samples of one treatment differ in them, each with these treatments.
    """
    table = matrix.treatments
    averaged, differing = average_features(table, groups)
    place = {name: index for index, name in enumerate(averaged.names)}
    target = np.array([place[group] for group in groups])
    cells = [(target, replace(matrix.changed(np.transpose), padj=None))]
    means, _ = average_cells((len(place), len(matrix.values)), cells)
    samples = [
        AuditRow("sample", name, "averaged", "replicate", detail=group)
        for name, group in zip(table.names, groups, strict=True)
    ]
    return ResponseMatrix.of(averaged, means.changed(np.transpose)), samples, differing


def against_control(matrix: ResponseMatrix, control: str) -> ResponseMatrix:
    """Differences of all treatments to one, which is left out. Raises: BioattnError when it is not there."""
    names = matrix.treatments.names
    if control not in names:
        raise not_there("--control", control, "the table of counts", "group of samples", names)
    others = [index for index, name in enumerate(names) if name != control]
    differences = replace(matrix, values=matrix.values - matrix.values[:, [names.index(control)]])
    return differences.select(np.arange(len(matrix.values)), np.array(others, dtype=np.int64))


def apply_task(matrix: ResponseMatrix, settings: DatasetSettings) -> ResponseMatrix:
    """Labels for the binary task, and the limit on adjusted p; see `DatasetSettings` for what is missing after it.

    Raises: BioattnError when --max-padj is given and the tables had no adjusted p.
    """
    values, padj = matrix.values, matrix.padj
    if settings.max_padj is not None:
        if padj is None:
            raise BioattnError(
                "--max-padj: no response table has a column of adjusted p values (padj, adj.P.Val, FDR); "
                "leave it out or give the contrast tables of DESeq2, edgeR or limma"
            )
        untested = ~np.isnan(values) & np.isnan(padj)
        if untested.any():
            LOGGER.warning(
                f"{int(untested.sum()):,} values without an adjusted p (not tested) become missing"
            )
        values = np.where(untested, np.nan, values)
    threshold, direction = settings.threshold, settings.direction
    if threshold is not None:  # binary
        up, down = values >= threshold, values <= -threshold
        passed = up if direction is Direction.UP else down if direction is Direction.DOWN else up | down
        if settings.max_padj is not None and padj is not None:
            passed = passed & (padj <= settings.max_padj)
        return replace(matrix, values=np.where(np.isnan(values), np.nan, passed))
    if settings.max_padj is not None and padj is not None:
        weak = padj > settings.max_padj
        LOGGER.warning(
            f"--max-padj {settings.max_padj:g}: {int((weak & ~np.isnan(values)).sum()):,} of "
            f"{int((~np.isnan(values)).sum()):,} values are above it and become missing"
        )
        values = np.where(weak, np.nan, values)
    return replace(matrix, values=values)
