"""Responses of genes to treatments, read from wide, long and contrast tables.

Wide tables, long tables and contrast tables can be mixed; each file adds treatments. Values of the same gene and
treatment are averaged and counted, text and infinities are refused with file, line and column.
"""

import fnmatch
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import (
    TableReader,
    is_missing,
    is_number,
    open_table,
    parse_numbers,
    refuse_duplicate_columns,
)
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.treatments import NO_CATEGORY
from bioattn.text import counted, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRoles:
    """Column indices of one table; None = there is no such column."""

    layout: Layout
    gene: int
    treatment: int | None = None
    values: tuple[int, ...]
    standard_error: int | None = None
    padj: int | None = None


# Names are compared in lower case without anything but letters and digits: adj.P.Val = adjpval, gene_id = geneid.
_GENE = ["geneid", "gene", "genes", "ensemblgeneid", "locustag", "orf", "targetid", "featureid", "id"]
_GENE += ["row", "symbol"]
_TREATMENT = ["treatment", "contrast", "comparison", "condition", "sample", "experiment"]
_TREATMENT += ["perturbation", "array"]
_EFFECT = ["log2foldchange", "logfc", "log2fc", "lfc", "avglog2fc", "log2ratio"]
_EFFECT += ["logfoldchange", "logfoldchanges"]
_VALUE = (*_EFFECT, "value", "response", "expression", "score", "measurement", "logtpm", "tpm")
_PADJ = ("padj", "adjpval", "fdr", "qvalue", "qval", "pvaladj", "adjpvalue", "pvalsadj", "padjust", "svalue")
_P = ("pvalue", "pval", "p", "pvals")
# A wide table with such a column is several contrasts side by side, or one whose effect has an unknown name.
_TESTED = ("padj", "adjpval", "adjpvalue", "fdr", "qvalue", "pvalue", "pval")
_STANDARD_ERROR = ("lfcse", "stderr", "standarderror", "stderror", "se")


def find_columns(reader: TableReader, stated: ResponseColumns) -> ColumnRoles:
    """Find the role of each column of a table.

    The layout is `stated.layout`, or: long when there is a treatment column beside an effect or value column, or
    the table has three columns of which the second is text; contrast when there is an effect beside a p value or
    standard error; else wide. Gene ids are the first column, unless it only numbers the rows.

    Raises: FormatError when a column that was named, or that the layout needs, is not there.
    """
    gene = _gene_column(reader, stated)
    names = {_plain(name): index for index, name in reversed(list(enumerate(reader.header))) if index != gene}
    effect = _first(names, _EFFECT)
    value = effect if effect is not None else _first(names, _VALUE)
    treatment = _first(names, _TREATMENT)
    if stated.treatment is not None:
        treatment = reader.column(stated.treatment, "--treatment-column")
    layout = stated.layout or _guess_layout(reader, stated, gene, names, treatment, value)
    if layout is Layout.WIDE:
        return ColumnRoles(layout=layout, gene=gene, values=_wide_columns(reader, stated, gene))
    if len(stated.values) > 1:
        raise FormatError(
            f"{reader.path}: a {layout} table has one column of values, --value-column names "
            f"{quoted(stated.values)}"
        )
    if stated.values:
        value = reader.column(stated.values[0], "--value-column")
    if layout is Layout.LONG and treatment is None:
        text = [
            i for i in range(len(reader.header)) if i not in (gene, value) and not _mostly_numbers(reader, i)
        ]
        if len(text) != 1:
            raise FormatError(
                f"{reader.path}: no column of this long table names the treatment; say which of "
                f"{quoted(reader.header)} with --treatment-column"
            )
        treatment = text[0]
    if layout is Layout.LONG and value is None:
        number = [
            i for i in range(len(reader.header)) if i not in (gene, treatment) and _mostly_numbers(reader, i)
        ]
        value = number[0] if len(number) == 1 else None
    if value is None:
        raise FormatError(
            f"{reader.path}: no column of this {layout} table is known to hold the response; say which of "
            f"{quoted(reader.header, 12)} with --value-column"
        )
    return ColumnRoles(
        layout=layout,
        gene=gene,
        treatment=treatment if layout is Layout.LONG else None,
        values=(value,),
        standard_error=_first(names, _STANDARD_ERROR),
        padj=_first(names, _PADJ),
    )


def _gene_column(reader: TableReader, stated: ResponseColumns) -> int:
    if stated.gene is not None:
        return reader.column(stated.gene, "--gene-column")
    if reader.header[0] and _plain(reader.header[0]) in _GENE:
        return 0
    first = [cells[0] for _, cells in reader.sample]
    named = _first({_plain(name): i for i, name in enumerate(reader.header)}, _GENE)
    if named is not None and (
        all(map(str.isdigit, first)) or _plain(reader.header[0]) in (*_TREATMENT, *_VALUE)
    ):
        return named
    return 0


def _guess_layout(
    reader: TableReader,
    stated: ResponseColumns,
    gene: int,
    names: dict[str, int],
    treatment: int | None,
    value: int | None,
) -> Layout:
    others = [index for index in range(len(reader.header)) if index != gene]
    if stated.treatment is not None:
        return Layout.LONG
    if treatment is not None and (value is not None or len(others) == 2):
        return Layout.LONG
    tested = any(_first(names, known) is not None for known in (_PADJ, _P, _STANDARD_ERROR))
    if _first(names, _EFFECT) is not None and tested:
        return Layout.CONTRAST
    if len(others) == 2 and not _mostly_numbers(reader, others[0]) and _mostly_numbers(reader, others[1]):
        return Layout.LONG
    return Layout.WIDE


def _wide_columns(reader: TableReader, stated: ResponseColumns, gene: int) -> tuple[int, ...]:
    """The treatments of a wide table: all columns but the gene ids, or those that match the user's patterns."""
    header = reader.header
    if stated.values:
        for pattern in stated.values:
            if not any(fnmatch.fnmatchcase(name, pattern) for name in header):
                raise FormatError(
                    f"{reader.path}: --value-column {pattern!r} fits no column; it has {quoted(header[1:], 8)}"
                )
        chosen = [
            index
            for index, name in enumerate(header)
            if index != gene and any(fnmatch.fnmatchcase(name, pattern) for pattern in stated.values)
        ]
    else:
        chosen = [index for index in range(len(header)) if index != gene]
    if not chosen:
        raise FormatError(
            f"{reader.path}:{reader.header_line}: there is no column of responses beside the gene ids "
            f"({header[gene]!r}); separate columns by tabs or commas"
        )
    names = [header[index] for index in chosen if header[index]]
    if len(names) > 1 and all(is_number(name) for name in names) and sum("." in name for name in names) > 1:
        raise FormatError(
            f"{reader.path}:{reader.header_line}: the first line looks like data ({quoted(names, 3)}); "
            "the table needs a header that names its columns"
        )
    tested = [name for name in names if _plain(name).endswith(_TESTED)]
    if tested and not stated.values:
        raise FormatError(
            f"{reader.path}: the column {tested[0]!r} looks like a p value, not a response; name the columns to "
            "use with --value-column, or say --layout contrast"
        )
    for index in chosen:
        example = next(
            ((line, cells[index]) for line, cells in reader.sample if _is_text(cells[index])), None
        )
        if example is not None and not _mostly_numbers(reader, index):
            raise FormatError(
                f"{reader.path}:{example[0]}: the column {header[index]!r} holds text ({example[1]!r}), not "
                "responses; name the columns to use with --value-column, or the kind of table with --layout"
            )
    return tuple(chosen)


def _mostly_numbers(reader: TableReader, index: int) -> bool:
    """Whether at least half of the sampled values of a column are numbers (an empty column counts as numbers)."""
    present = [cells[index] for _, cells in reader.sample if not is_missing(cells[index])]
    return 2 * sum(not _is_text(cell) for cell in present) >= len(present)


def _is_text(cell: str) -> bool:
    # A comma inside a number is a number written badly, which is reported where it stands.
    return not is_missing(cell) and not is_number(cell.replace(",", ""))


def _first(names: dict[str, int], known: Sequence[str]) -> int | None:
    return next((names[name] for name in known if name in names), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


class Cells(NamedTuple):
    """Values for cells of a matrix of genes × treatments."""

    place: Any
    """Index of the cells; a cell may occur several times."""
    values: NDArray[np.float64]
    """NaN = missing."""
    standard_error: NDArray[np.float64] | None
    padj: NDArray[np.float64] | None


class Averages(NamedTuple):
    """What several values for the cells of a matrix come to."""

    values: NDArray[np.float64]
    """Their means; NaN where nothing was given."""
    standard_error: NDArray[np.float64] | None
    """Of the means, values taken as independent; NaN where one of them has none."""
    padj: NDArray[np.float64] | None
    """The largest adjusted p; NaN where one was not tested."""
    number: NDArray[np.int32]
    """How many values there were."""


def average_cells(shape: tuple[int, int], blocks: Iterable[Cells]) -> Averages:
    """Average what is given for the cells of a matrix; missing values are left out.

    Blocks are added one after the other, so memory is that of one block plus a few matrices.
    """
    total, variance, padj = np.zeros(shape), np.zeros(shape), np.full(shape, -np.inf)
    count, errors = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    with_padj = False
    for block in blocks:
        present = ~np.isnan(block.values)
        np.add.at(total, block.place, np.where(present, block.values, 0.0))
        np.add.at(count, block.place, present)
        if block.standard_error is not None:
            known = present & ~np.isnan(block.standard_error)
            np.add.at(variance, block.place, np.where(known, block.standard_error, 0.0) ** 2)
            np.add.at(errors, block.place, known)
        if block.padj is not None:
            with_padj = True
            # NaN (not tested) wins over any number: the mean counts as tested only if all values were.
            np.maximum.at(padj, block.place, np.where(present, block.padj, -np.inf))
    known = (count > 0) & (errors == count)
    mean, error = np.full(shape, np.nan), np.full(shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    np.divide(np.sqrt(variance), count, out=error, where=known)
    return Averages(
        mean,
        error if errors.any() else None,
        np.where(np.isneginf(padj), np.nan, padj) if with_padj else None,
        count,
    )


LOGGER = logging.getLogger("bioattn")


class ResponseSource(NamedTuple):
    """One response file, and the treatment's name when it is a contrast table."""

    path: Path
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """Values of genes × treatments as the tables have them, not yet joined with promoters."""

    gene_ids: list[str]
    """Unique, in order of first appearance."""
    treatments: list[str]
    """Unique, in order of first appearance."""
    values: NDArray[np.float64]
    """(genes, treatments), NaN = missing; the mean where a gene had several values for a treatment."""
    standard_error: NDArray[np.float64] | None = None
    """(genes, treatments): of `values`, from contrast tables."""
    padj: NDArray[np.float64] | None = None
    """(genes, treatments): adjusted p; the largest where a gene had several."""
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
    for suffix in (".gz", ".xz", ".tsv", ".csv", ".txt", ".tab"):
        name = name.removesuffix(suffix)
    return name


def read_responses(
    sources: Sequence[ResponseSource | Path], columns: ResponseColumns | None = None
) -> Responses:
    """Read and join response tables.

    Raises: FormatError for what cannot be understood (file, line, column); BioattnError when two tables both hold
    a treatment as a column, or a name was given to a table that is not a contrast.
    """
    stated = columns or ResponseColumns()
    tables = _Tables()
    for source in sources:
        path, name = source if isinstance(source, ResponseSource) else ResponseSource(source)
        _read_table(path, name, stated, tables)
    if not tables.treatments:
        raise BioattnError("no response table holds a treatment")
    names = list(tables.genes)
    means = average_cells((len(names), len(tables.treatments)), tables.blocks)
    several = means.number.max(axis=1, initial=0)
    return Responses(
        gene_ids=names,
        treatments=list(tables.treatments),
        values=means.values,
        standard_error=means.standard_error,
        padj=means.padj,
        duplicated={names[i]: int(several[i]) for i in np.flatnonzero(several > 1)},
    )


@dataclass
class _Tables:
    """Rows of all tables so far."""

    genes: dict[str, int] = field(default_factory=dict)
    treatments: dict[str, int] = field(default_factory=dict)
    blocks: list[Cells] = field(default_factory=list)
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


def _read_table(path: Path, name: str | None, stated: ResponseColumns, tables: _Tables) -> None:
    reader = open_table(path)
    refuse_duplicate_columns(reader)
    if not reader.sample:
        raise FormatError(f"{path}: the table has a header but no rows")
    roles = find_columns(reader, stated)
    if name is not None and roles.layout is not Layout.CONTRAST:
        raise BioattnError(
            f"{path}: the name {name!r} was given, but this is a {roles.layout} table that names its treatments "
            "itself; --layout contrast says otherwise"
        )
    LOGGER.info(_described(reader, roles))
    without_id: list[int] = []
    if roles.layout is Layout.WIDE:
        rows = _read_wide(reader, roles, tables, without_id)
    else:
        rows = _read_cells(reader, roles, tables, name or file_stem(path), without_id)
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
        raise FormatError(f"{path}: no row has a gene id in column {reader.header[roles.gene] or 1!r}")


def _read_wide(reader: TableReader, roles: ColumnRoles, tables: _Tables, without_id: list[int]) -> int:
    path, header, columns = reader.path, reader.header, roles.values
    genes: list[int] = []
    rows: list[NDArray[np.float64]] = []
    for line, cells in reader.rows():
        if is_missing(cells[roles.gene]):
            without_id.append(line)
            continue
        genes.append(tables.genes.setdefault(cells[roles.gene], len(tables.genes)))
        chosen = [cells[index] for index in columns]
        rows.append(parse_numbers(chosen, _place(path, line, header, columns)))
    if not rows:
        return 0
    values = np.stack(rows)
    named = np.array([bool(header[index]) for index in columns])
    if not np.isnan(values[:, ~named]).all():
        bad = next(index for index in columns if not header[index])
        raise FormatError(f"{path}:{reader.header_line}: column {bad + 1} has values but no name")
    treatments = [tables.treatment(header[index], path, alone=True) for index in columns if header[index]]
    places = np.array(genes)[:, None], np.array(treatments)[None]
    tables.blocks.append(Cells(places, values[:, named], None, None))
    return len(rows)


def _read_cells(
    reader: TableReader, roles: ColumnRoles, tables: _Tables, name: str, without_id: list[int]
) -> int:
    """Long and contrast tables: one value, its standard error and adjusted p per row."""
    path, header = reader.path, reader.header
    columns = tuple(i for i in (*roles.values, roles.standard_error, roles.padj) if i is not None)
    genes: list[int] = []
    treatments: list[int] = []
    numbers: list[NDArray[np.float64]] = []
    lines: list[int] = []
    for line, cells in reader.rows():
        if is_missing(cells[roles.gene]):
            without_id.append(line)
            continue
        treatment = name if roles.treatment is None else cells[roles.treatment]
        if treatment.lower() in NO_CATEGORY:
            raise FormatError(f"{path}:{line}: no treatment in column {header[roles.treatment or 0]!r}")
        lines.append(line)
        genes.append(tables.genes.setdefault(cells[roles.gene], len(tables.genes)))
        treatments.append(tables.treatment(treatment, path, alone=roles.treatment is None))
        numbers.append(parse_numbers([cells[i] for i in columns], _place(path, line, header, columns)))
    if not numbers:
        return 0
    table = np.stack(numbers)
    error = table[:, columns.index(roles.standard_error)] if roles.standard_error is not None else None
    padj = table[:, columns.index(roles.padj)] if roles.padj is not None else None
    if error is not None and roles.standard_error is not None:
        _check_range(path, header[roles.standard_error], error, lines, np.inf)
    if padj is not None and roles.padj is not None:
        _check_range(path, header[roles.padj], padj, lines, 1.0)
    tables.blocks.append(Cells((np.array(genes), np.array(treatments)), table[:, 0], error, padj))
    return len(genes)


def _check_range(
    path: Path, column: str, values: NDArray[np.float64], lines: Sequence[int], high: float
) -> None:
    outside = np.flatnonzero((values < 0) | (values > high))
    if outside.size:
        row = int(outside[0])
        limits = "below 0" if values[row] < 0 else f"above {high:g}"
        raise FormatError(
            f"{path}:{lines[row]}, column {column!r}: {values[row]:g} is {limits}, which this quantity cannot be"
        )


def _place(path: Path, line: int, header: Sequence[str], columns: Sequence[int]) -> Callable[[int], str]:
    return lambda i: f"{path}:{line}, column {header[columns[i]] or columns[i] + 1!r}"


def _described(reader: TableReader, roles: ColumnRoles) -> str:
    header = reader.header
    gene = f"genes in {header[roles.gene]!r}" if header[roles.gene] else f"genes in column {roles.gene + 1}"
    if roles.layout is Layout.WIDE:
        names = quoted([header[index] for index in roles.values], 3)
        return f"{reader.path}: wide table, {gene}, {counted(len(roles.values), 'treatment')} ({names})"
    parts = [f"{reader.path}: {roles.layout} table, {gene}"]
    if roles.treatment is not None:
        parts.append(f"treatments in {header[roles.treatment]!r}")
    parts.append(f"values in {header[roles.values[0]]!r}")
    if roles.standard_error is not None:
        parts.append(f"standard errors in {header[roles.standard_error]!r}")
    if roles.padj is not None:
        parts.append(f"adjusted p in {header[roles.padj]!r}")
    return ", ".join(parts)
