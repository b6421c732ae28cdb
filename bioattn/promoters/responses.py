"""Responses of genes to treatments, read from wide, long and contrast tables, and from AnnData; and raw counts, of
which log2 ratios are made.

Tables of all layouts can be mixed; each file adds treatments. Values of the same gene and treatment are averaged
and counted; text, and infinities that are no effects, are refused with file, line and column.
"""

import itertools
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import (
    Row,
    TableReader,
    is_missing,
    is_number,
    limit_of,
    open_table,
    parse_numbers,
    refuse_duplicate_columns,
)
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.response_columns import ColumnRoles, find_columns
from bioattn.promoters.treatments import NO_CATEGORY
from bioattn.text import counted, listed, quoted

LOGGER = logging.getLogger("bioattn")
_MONTH = "(?:jan|feb|fév|mar|mär|mrz|apr|avr|may|mai|jun|jul|aug|aoû|sep|oct|okt|nov|dec|dez|déc|dic)[a-zé]*"
_DATE = re.compile(
    rf"\d{{1,2}}\W{{1,2}}{_MONTH}\W?(\d{{2,4}})?|{_MONTH}\W\d\d|\d{{4}}-\d\d-\d\d( [\d:.]+)?", re.IGNORECASE
)
LARGEST_EFFECT = 1e30
"""A larger one is infinite (Cuffdiff writes 1.79769e+308)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Values of a matrix or of some of its cells, NaN = missing; None where no table gave them."""

    values: NDArray[np.float64]
    padj: NDArray[np.float64] | None = None
    """Adjusted p, from contrast tables."""

    def changed(self, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> "Measured":
        """Both arrays, changed alike."""
        return Measured(values=change(self.values), padj=None if self.padj is None else change(self.padj))


def average_cells(
    shape: tuple[int, int], blocks: Iterable[tuple[Any, Measured]]
) -> tuple[Measured, NDArray[np.int32]]:
    """Average what is given for the cells of a matrix; missing values are left out.

    blocks: index of cells, of which one may occur several times, and what is given for them; they are added one
    after the other, so memory is that of one block plus a few matrices. Returns the means and the largest adjusted
    p (NaN where one was not tested), and how many values there were.
    """
    total, count = np.zeros(shape), np.zeros(shape, dtype=np.int32)
    padj, with_padj = np.full(shape, -np.inf), False
    for place, block in blocks:
        present = ~np.isnan(block.values)
        np.add.at(total, place, np.where(present, block.values, 0.0))
        np.add.at(count, place, present)
        if block.padj is not None:
            with_padj = True
            # NaN (not tested) wins over any number: the mean counts as tested only if all values were.
            np.maximum.at(padj, place, np.where(present, block.padj, -np.inf))
    mean = np.full(shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    largest = np.where(np.isneginf(padj), np.nan, padj) if with_padj else None
    return Measured(values=mean, padj=largest), count


class ResponseSource(NamedTuple):
    """One response file, and the treatment's name when it is a contrast table."""

    path: Path
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses(Measured):
    """Values of genes × treatments as the tables have them, each in order of first appearance."""

    gene_ids: list[str]
    treatments: list[str]
    duplicated: dict[str, int]
    """Genes that had more than one value for a treatment: the largest number of them."""


def response_source(argument: str) -> ResponseSource:
    """Parse `FILE` or `NAME=FILE` of the command line; an existing file with a `=` in its name is no `NAME=FILE`.

    >>> response_source("heat=results/deseq2_heat.csv").name
    'heat'
    """
    name, equals, path = argument.partition("=")
    if equals and name and path and not Path(argument).exists() and "/" not in name:
        return ResponseSource(Path(path), name)
    return ResponseSource(Path(argument))


def file_stem(path: Path) -> str:
    """File name without folder, compression and type: the treatment of a contrast table.

    >>> file_stem(Path("results/heat_30.vs_ctrl.csv.gz"))
    'heat_30.vs_ctrl'
    """
    name = path.name
    for suffix in (".gz", ".xz", ".tsv", ".csv", ".txt", ".tab", ".xlsx", ".diff"):
        name = name.removesuffix(suffix)
    return name


def read_responses(
    sources: Sequence[ResponseSource | Path],
    columns: ResponseColumns | None = None,
    promoters: GeneNames | None = None,
) -> Responses:
    """Read and join response tables. promoters: tell which column, or side of an AnnData file, names genes."""
    stated = columns or ResponseColumns()
    tables = _Tables()
    for source in sources:
        path, name = source if isinstance(source, ResponseSource) else ResponseSource(source)
        if path.is_file() and h5py.is_hdf5(path):
            column = next(iter(stated.treatment), None)
            table = read_expression(path, stated.sheet, column, stated.gene, promoters)
            genes = [tables.genes.setdefault(gene, len(tables.genes)) for gene in table.index]
            treatments = [tables.treatment(treatment, path, alone=True) for treatment in table.columns]
            cells = np.ix_(np.array(genes, dtype=int), np.array(treatments, dtype=int))
            tables.blocks.append((cells, Measured(values=table.to_numpy(np.float64))))
        else:
            _read_table(path, name, stated, promoters, tables)
    if not tables.treatments:
        raise BioattnError("no response table holds a treatment")
    names = list(tables.genes)
    means, number = average_cells((len(names), len(tables.treatments)), tables.blocks)
    several = number.max(axis=1, initial=0)
    return Responses(
        gene_ids=names,
        treatments=list(tables.treatments),
        values=means.values,
        padj=means.padj,
        duplicated={names[i]: int(several[i]) for i in np.flatnonzero(several > 1)},
    )


@dataclass
class _Tables:
    """Rows of all tables so far."""

    genes: dict[str, int] = field(default_factory=dict)
    treatments: dict[str, int] = field(default_factory=dict)
    blocks: list[tuple[Any, Measured]] = field(default_factory=list)
    owner: dict[str, tuple[Path, bool]] = field(default_factory=dict)
    """By treatment: the file that has it, and whether no other may."""

    def treatment(self, name: str, path: Path, alone: bool) -> int:
        """Index of a treatment; `alone`: no other file may have it (long tables may continue each other)."""
        owner, owned_alone = self.owner.setdefault(name, (path, alone))
        if owner != path and (alone or owned_alone):
            raise BioattnError(
                f"{path}: the treatment {name!r} is also in {owner}; rename one (contrast tables: NAME=FILE)"
            )
        return self.treatments.setdefault(name, len(self.treatments))


def _read_table(
    path: Path, name: str | None, stated: ResponseColumns, promoters: GeneNames | None, tables: _Tables
) -> None:
    reader = open_table(path, stated.sheet)
    refuse_duplicate_columns(reader)
    if not reader.sample:
        raise FormatError(f"{path}: the table has a header but no rows")
    roles, header, earlier = find_columns(reader, stated, promoters), reader.header, len(tables.genes)
    if name is not None and roles.layout is not Layout.CONTRAST:
        raise BioattnError(
            f"{path}: the name {name!r} was given, but this is a {roles.layout} table that names its treatments "
            "itself; --layout contrast says otherwise"
        )
    LOGGER.info(_described(reader, roles))
    columns = [i for i in (*roles.values, roles.padj) if i is not None]
    _take_limits(reader, columns)
    rows = [(line, cells) for line, cells in reader.rows() if not is_missing(cells[roles.gene])]
    without_id = [line for line, cells in reader.rows() if is_missing(cells[roles.gene])]
    if without_id:
        LOGGER.warning(
            f"{path}: left out {counted(len(without_id), 'row')} without a gene id, first at line {without_id[0]}"
        )
    if reader.repeated_headers:
        LOGGER.warning(
            f"{path}: left out {counted(len(reader.repeated_headers), 'row')} equal to the header, "
            f"first at line {reader.repeated_headers[0]}"
        )
    if not rows:
        raise FormatError(f"{path}: no row has a gene id in column {header[roles.gene] or 1!r}")
    treatments = []
    if roles.layout is not Layout.WIDE:
        for line, cells in rows:
            if empty := [header[i] for i in roles.treatment if cells[i].lower() in NO_CATEGORY]:
                raise FormatError(f"{path}:{line}: no treatment in column {empty[0]!r}")
            treatment = "_".join(cells[i] for i in roles.treatment) or name or file_stem(path)
            treatments.append(tables.treatment(treatment, path, alone=not roles.treatment))
    if roles.effect:
        _drop_effects_without_value(path, rows, roles)
    table = np.stack([_numbers(f"{path}:{line}", header, cells, columns) for line, cells in rows])
    genes = np.array([tables.genes.setdefault(cells[roles.gene], len(tables.genes)) for _, cells in rows])
    if roles.layout is Layout.WIDE:
        named = np.array([bool(header[index]) for index in columns])
        if not np.isnan(table[:, ~named]).all():
            bad = next(index for index in columns if not header[index])
            raise FormatError(f"{path}:{reader.header_line}: column {bad + 1} has values but no name")
        treatments = [tables.treatment(header[i], path, alone=True) for i in columns if header[i]]
        tables.blocks.append((np.ix_(genes, np.array(treatments)), Measured(values=table[:, named])))
    else:
        padj = None
        if roles.padj is not None:
            padj = table[:, columns.index(roles.padj)]
            for row in np.flatnonzero((padj < 0) | (padj > 1))[:1]:
                limits = "below 0" if padj[row] < 0 else "above 1"
                raise FormatError(
                    f"{path}:{rows[row][0]}, column {header[roles.padj]!r}: {padj[row]:g} is {limits}, which "
                    "this quantity cannot be"
                )
        tables.blocks.append(((genes, np.array(treatments)), Measured(values=table[:, 0], padj=padj)))
    dates = list(filter(_DATE.fullmatch, itertools.islice(tables.genes, earlier, None)))
    if dates:
        LOGGER.warning(
            f"{path}: {counted(len(dates), 'gene name')} became a date in Excel: {quoted(dates)}; write the names "
            "again (MARCH1 or MARCHF1 for 1-Mar, SEPT2 or SEPTIN2 for 2-Sep, DEC1 or DELEC1 for 1-Dec)"
        )


def _take_limits(reader: TableReader, columns: Sequence[int]) -> None:
    """Replace values such as `>10` and adjusted p such as `<0.001` by these limits, with a warning."""
    limits: dict[int, list[str]] = {}
    for _, cells in reader.kept_rows():
        for index in columns:
            if (limit := limit_of(cells[index])) is not None:
                limits.setdefault(index, []).append(cells[index])
                cells[index] = limit
    for index, found in limits.items():
        LOGGER.warning(
            f"{reader.path}: {counted(len(found), 'cell')} of {reader.header[index]!r} such as {found[0]!r} "
            f"{'is' if len(found) == 1 else 'are'} read as the limit itself; write NA to leave them out"
        )


def _drop_effects_without_value(path: Path, rows: Sequence[Row], roles: ColumnRoles) -> None:
    """Empty the cells of effects that are infinite or that Cuffdiff did not test, with a warning."""
    without_value: Counter[str] = Counter()
    (column,) = roles.values
    for _, cells in rows:
        status = "OK" if roles.status is None else cells[roles.status]
        if is_number(cells[column]) and abs(float(cells[column])) > LARGEST_EFFECT:
            status = "infinite"
        if status != "OK":
            without_value[status] += 1
            cells[column] = ""
    if without_value:
        said = ", ".join(f"{reason} {number:,}" for reason, number in without_value.items())
        LOGGER.warning(f"{path}: effects that are infinite or were not tested are missing ({said})")


def _numbers(
    where: str, header: Sequence[str], cells: Sequence[str], columns: Sequence[int]
) -> NDArray[np.float64]:
    """The numbers of a row in some columns."""
    return parse_numbers(
        [cells[i] for i in columns], lambda i: f"{where}, column {header[columns[i]] or columns[i] + 1!r}"
    )


def _described(reader: TableReader, roles: ColumnRoles) -> str:
    header = reader.header
    gene = f"genes in {header[roles.gene]!r}" if header[roles.gene] else f"genes in column {roles.gene + 1}"
    if roles.layout is Layout.WIDE:
        names = [header[index] for index in roles.values if header[index]]
        number = counted(len(names), "treatment")
        others = [
            name for index, name in enumerate(header) if name and index not in (roles.gene, *roles.values)
        ]
        passed = f"; not read: {quoted(others)}" if others else ""
        return f"{reader.path}: wide table, {gene}, {number} ({quoted(names, 3)}){passed}"
    parts = [f"{reader.path}: {roles.layout} table, {gene}"]
    if roles.treatment:
        parts.append(f"treatments in {listed([repr(header[i]) for i in roles.treatment])}")
    parts.append(f"values in {header[roles.values[0]]!r}")
    if roles.padj is not None:
        parts.append(f"adjusted p in {header[roles.padj]!r}")
    return ", ".join(parts)


def read_expression(
    path: Path,
    layer: str | None = None,
    sample_column: str | None = None,
    gene_column: str | None = None,
    promoters: GeneNames | None = None,
) -> pd.DataFrame:
    """Read a matrix of an AnnData file, X or a layer, as genes × samples, NaN = missing.

    Genes are in var, or in obs where that has more names of `promoters`: names of the index, or of the column that
    has most. sample_column: a column of the samples; those that share its value become one, the sum of raw counts
    or else the mean. gene_column: the column of gene ids.
    """
    try:
        import anndata
    except ImportError:
        raise BioattnError(
            f"{path}: AnnData files need anndata, which is not installed: pip install anndata"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that come again, which are averaged and told
            data = anndata.read_h5ad(path)
    except Exception as error:
        raise FormatError(f"{path}: is an HDF5 file, but not AnnData ({error})") from error
    matrix = data.X if layer is None else data.layers.get(layer)
    if matrix is None:
        raise BioattnError(
            f"{path}: has no {'X' if layer is None else f'layer {layer!r}'}; choose with --layer among "
            f"{quoted(list(data.layers))}"
        )
    tables: tuple[Any, Any] = (data.var, data.obs)
    sides = [(_gene_names(path, table, gene_column, promoters), table) for table in tables]
    in_var, in_obs = (0.0 if promoters is None else promoters.share(ids) for ids, _ in sides)
    (genes, _), (_, samples) = sides if in_var >= in_obs else sides[::-1]
    advice = (
        ""
        if sample_column or not len(samples.columns)
        else (f", each a treatment; --obs-column averages them by {quoted(list(samples.columns), 4)}")
    )
    side = "var" if in_var >= in_obs else "obs"
    LOGGER.info(f"{path}: AnnData, genes in {side}, {counted(len(samples), 'sample')}{advice}")
    matrix = matrix.T if in_var >= in_obs else matrix
    if sample_column is None:
        return pd.DataFrame(_dense(matrix), genes, list(map(str, samples.index)))
    labels = np.array(_column(path, samples, sample_column, "--treatment-column"))
    merged = np.sum if is_counts(np.asarray(getattr(matrix, "data", matrix))) else np.nanmean
    without = samples.index[labels == ""]
    if len(without):
        LOGGER.warning(
            f"{path}: {counted(len(without), 'sample')} without a value of {sample_column!r} left out: "
            f"{quoted(list(map(str, without)))}"
        )
    groups = [name for name in dict.fromkeys(labels.tolist()) if name]
    return pd.DataFrame(
        {name: merged(_dense(matrix[:, np.flatnonzero(labels == name)]), axis=1) for name in groups}, genes
    )


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _column(path: Path, table: Any, column: str, option: str) -> list[str]:
    if column not in table:
        raise BioattnError(f"{path}: {option}: no column {column!r}; there are {quoted(list(table), 20)}")
    return [
        "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)
        for value in table[column]
    ]


def _gene_names(path: Path, table: Any, column: str | None, promoters: GeneNames | None) -> list[str]:
    """A column, or the index or the column of text that has twice as many names of promoters."""
    if column is not None and column in table:
        return _column(path, table, column, "--gene-column")
    best = list(map(str, table.index))
    for text in table.select_dtypes(["object", "category", "string"]) if promoters is not None else ():
        names = _column(path, table, text, "--gene-column")
        if promoters is not None and promoters.share(names) > 2 * promoters.share(best):
            best = names
    return best


def replicates_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Names that look like replicates, by what they are of: NAME_rep1, NAME_rep2; or X_1, X_2, Y_1, Y_2 (doses and
    times have other numbers, and X_1, X_2, … alone may be different treatments).

    >>> replicates_of(["heat_rep1", "heat_rep2", "cold"]), replicates_of(["a1", "a2", "b1", "b2"])
    ({'heat': ['heat_rep1', 'heat_rep2']}, {'a': ['a1', 'a2'], 'b': ['b1', 'b2']})
    >>> replicates_of(["treatment1", "treatment2"]), replicates_of(["cold_10", "cold_30", "heat_10", "heat_30"])
    ({}, {})
    """
    groups: dict[str, list[str]] = {}
    for name, stem in zip(names, without_replicate(names), strict=True):
        groups.setdefault(stem, []).append(name)
    several = {stem: group for stem, group in groups.items() if len(group) > 1}
    said = {
        stem: group
        for stem, group in several.items()
        if all((part := _REPLICATE.fullmatch(name)) is not None and part[2] for name in group)
    }
    return several if len(several) > 1 else said


LARGEST_RATIO = 100.0
"""No log2 ratio is as large as this."""
FEWEST_COUNTS = 10
"""A gene with fewer in all samples together has no ratio (the filter of DESeq2's vignette)."""
_ALIGNMENT = re.compile(
    r"^.*/(?=.*am$)|([._]?Aligned|[._](sort|markdup|dedup)[A-Za-z]*)*(\.out)?\.[bs]am$|\.(genes|isoforms)\.results$"
)
_REPLICATE = re.compile(r"(.+?)[._ -]?(rep(?:licate)?|r)?[._ -]?(\d+)", re.IGNORECASE)


def is_counts(values: NDArray[np.float64]) -> bool:
    """Whether a matrix of genes × samples is of raw counts: whole numbers, none below 0 and some large."""
    return is_linear(values) and bool((values[~np.isnan(values)] % 1 == 0).all())


FEWEST_LEVELS = 4
"""Whole numbers from 0 of more kinds than classes or scores have are counts, if small ones."""


def are_small_counts(values: NDArray[np.float64]) -> bool:
    """Whether a matrix holds whole numbers from 0 of some range, none of them as large as `is_counts` needs."""
    known = values[~np.isnan(values)]
    whole = bool(known.size) and bool((known >= 0).all() and (known % 1 == 0).all())
    return whole and known.max() > FEWEST_LEVELS


def is_linear(values: NDArray[np.float64]) -> bool:
    """Whether a matrix is of counts or abundances (TPM), not of logarithms: none below 0 and some large."""
    known = values[~np.isnan(values)]
    return bool(known.size) and bool((known >= 0).all() and known.max() >= LARGEST_RATIO)


def size_factors(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sequencing depth of the samples (samples,), by DESeq2's median of ratios (Anders and Huber 2010).

    counts: (genes, samples). The ratios are those to the geometric mean of a gene, of genes with a count in every
    sample; where there is none, to the mean over counts above 0 (`poscounts`).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(counts)
        everywhere = np.isfinite(logs).all(axis=1)
        if everywhere.any():
            means = logs[everywhere].mean(axis=1, keepdims=True)
            return np.asarray(np.exp(np.median(logs[everywhere] - means, axis=0)))
        logs[~np.isfinite(logs)] = np.nan
        means = np.nansum(logs, axis=1, keepdims=True) / counts.shape[1]
        factors = np.exp(np.nanmedian(logs - means, axis=0))
    return np.asarray(factors / np.exp(np.log(factors).mean()))


def log_counts(responses: Responses) -> Responses:
    """log2(count / size factor + 1) of raw counts; missing for genes with fewer than `FEWEST_COUNTS` in all."""
    counts = np.nan_to_num(responses.values)
    factors = size_factors(counts)
    sums = counts.sum(axis=0)
    LOGGER.info(
        "size factors: "
        + listed([f"{name} {size:.2f}" for name, size in zip(responses.treatments, factors, strict=True)], 20)
    )
    LOGGER.warning(
        f"log2 ratios are made of counts ({sums.min():,.0f} to {sums.max():,.0f} in a sample) by size factors "
        "alone; those of DESeq2 or edgeR, which weigh replicates and depth, are better"
    )
    values = np.where(
        counts.sum(axis=1, keepdims=True) < FEWEST_COUNTS, np.nan, np.log2(counts / factors + 1)
    )
    return replace(responses, values=values)


def without_replicate(names: Sequence[str]) -> list[str]:
    """Names of samples or BAM files without the numbers of their replicates, which run from 1; others stay.

    >>> without_replicate(["ctrl_1", "ctrl_3", "heat.rep2", "mock", "cold_10", "cold_30", "/a/b_1.sorted.bam"])
    ['ctrl', 'ctrl', 'heat', 'mock', 'cold_10', 'cold_30', 'b']
    """
    names = [_ALIGNMENT.sub("", name) for name in names]
    parts = [_REPLICATE.fullmatch(name) for name in names]
    numbers: dict[str, list[int]] = {}
    for part in filter(None, parts):
        numbers.setdefault(part[1], []).append(int(part[3]))
    return [
        part[1] if part and (part[2] or max(numbers[part[1]]) <= len(numbers[part[1]]) + 1) else name
        for name, part in zip(names, parts, strict=True)
    ]
