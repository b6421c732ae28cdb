"""Responses of genes to treatments, read from wide, long and contrast tables, and from AnnData.

Tables of all layouts can be mixed; each file adds treatments. Values of the same gene and treatment are averaged
and counted; text, and infinities that are no effects, are refused with file, line and column.
"""

import fnmatch
import itertools
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
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
from bioattn.promoters.expression import read_expression
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.treatments import NO_CATEGORY
from bioattn.text import counted, listed, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRoles:
    """Column indices of one table; None = there is no such column."""

    layout: Layout
    gene: int
    treatment: tuple[int, ...] = ()
    """Columns that together name the treatment of a row (long)."""
    values: tuple[int, ...]
    standard_error: int | None = None
    padj: int | None = None
    effect: bool = False
    """Whether the values are effects that a program computed, infinite where a control is 0."""
    status: int | None = None
    """Cuffdiff's, which is OK where there is an effect."""


# Names are compared in lower case without anything but letters and digits: adj.P.Val = adjpval, gene_id = geneid.
_GENE = ["geneid", "gene", "genes", "ensemblgeneid", "locustag", "orf", "targetid", "featureid", "id"]
_GENE += ["row", "names", "feature", "genename", "genesymbol", "hgncsymbol", "symbol"]
_TREATMENT = ["treatment", "contrast", "comparison", "condition", "sample", "experiment"]
_TREATMENT += ["perturbation", "array"]
_MARKERS = ["avglog2fc", "avglogfc", "logfoldchanges"]
_GROUPS = ["cluster", "group"]
"""Columns of Seurat and scanpy, whose effects `_MARKERS` are; elsewhere they may be groups of genes."""
_EFFECT = ["log2foldchange", "logfc", "log2fc", "lfc", *_MARKERS, "log2ratio", "logfoldchange"]
_VALUE = (*_EFFECT, "value", "response", "expression", "score", "measurement", "logtpm", "tpm")
_PADJ = ["padj", "padjloc", "adjpval", "fdr", "qvalue", "qval", "pvaladj", "adjpvalue", "pvalsadj"]
_PADJ += ["padjust", "svalue"]
_P = ("pvalue", "pval", "p", "pvals")
# A wide table with such a column is several contrasts side by side, or one whose effect has an unknown name.
_TESTED = ("padj", "adjpval", "adjpvalue", "fdr", "qvalue", "pvalue", "pval")
_STANDARD_ERROR = ("lfcse", "stderr", "standarderror", "stderror", "se")

_NAMES_TREATMENT = re.compile(r"treat|contrast|compar|condition|cluster|group|sample(?!1$)|perturb|celltype")
"""Names of columns that are preferred where several would tell the rows of a gene apart."""
_OUTCOME = re.compile(
    r"|na|n[sco]|none|yes|true|false|[+-]|ok|notest|lowdata|hidata|fail|(up|down)(\W?regulated)?|unchanged|stable"
    r"|not?\W?(sig(nificant)?|de|change)",
    re.IGNORECASE,
)
"""What columns say of the result of a row, which is no treatment."""
_REPLICATE = ("replicate", "rep", "biorep", "batch")
_STATES = frozenset(("OK", "NOTEST", "LOWDATA", "HIDATA", "FAIL"))
"""Of Cuffdiff's `status`; only OK has an effect."""
_MONTH = "(?:jan|feb|fév|mar|mär|mrz|apr|avr|may|mai|jun|jul|aug|aoû|sep|oct|okt|nov|dec|dez|déc|dic)[a-zé]*"
_DATE = re.compile(
    rf"\d{{1,2}}\W{{1,2}}{_MONTH}\W?(\d{{2,4}})?|{_MONTH}\W\d\d|\d{{4}}-\d\d-\d\d( [\d:.]+)?", re.IGNORECASE
)
LARGEST_EFFECT = 1e30
"""A larger one is infinite (Cuffdiff writes 1.79769e+308)."""
FEW_LEVELS = 20
FEW_LEFT = 0.05
"""Largest share of the repeated rows that columns of treatments may leave as repetitions, to be averaged."""


def find_columns(
    reader: TableReader, stated: ResponseColumns, promoters: GeneNames | None = None
) -> ColumnRoles:
    """Find the role of each column of a table.

    The layout is `stated.layout`, or: long when there is a treatment column beside an effect or value column, the
    table has three columns of which the second is text, or genes have several effects (see `_stacked_by`);
    contrast when there is an effect beside a p value or standard error; else wide. Gene ids are the first column,
    unless it only numbers the rows or another one has more names of `promoters`.

    Raises: FormatError when a column that was named, or that the layout needs, is not there, and for effects of
    one gene that differ with no column to tell them apart.
    """
    gene = _gene_column(reader, stated, promoters)
    names = {_plain(name): index for index, name in reversed(list(enumerate(reader.header))) if index != gene}
    effect = _first(names, _EFFECT)
    value = effect if effect is not None else _first(names, _VALUE)
    named = _first(names, _TREATMENT)
    if named is None and _first(names, _MARKERS) is not None:
        named = _first(names, _GROUPS)
    treatment: tuple[int, ...] = () if named is None else (named,)
    tests = [i for known in (_PADJ, _P, _STANDARD_ERROR) if (i := _first(names, known)) is not None]
    if stated.treatment:
        treatment = tuple(reader.column(name, "--treatment-column") for name in stated.treatment)
    elif stated.layout in (None, Layout.LONG):
        measured = effect
        if len(stated.values) == 1 and stated.values[0] in reader.header and (tests or effect is not None):
            measured = reader.header.index(stated.values[0])
        if measured is not None:
            others = [i for known in _VALUE if (i := names.get(known)) is not None]
            treatment = _stacked_by(reader, gene, [measured, *tests, *others]) or treatment
    rest = [index for index in range(len(reader.header)) if index != gene]
    is_text = [not _mostly_numbers(reader, index) for index in rest]
    layout = stated.layout or Layout.WIDE
    if stated.layout is None:
        if stated.treatment or (treatment and (value is not None or len(rest) == 2 or tests)):
            layout = Layout.LONG
        elif effect is not None and tests:
            layout = Layout.CONTRAST
        elif is_text == [True, False]:
            layout = Layout.LONG
    if layout is Layout.WIDE:
        return ColumnRoles(layout=layout, gene=gene, values=_wide_columns(reader, stated, gene))
    if len(stated.values) > 1:
        raise FormatError(
            f"{reader.path}: a {layout} table has one column of values, --value-column names "
            f"{quoted(stated.values)}"
        )
    if stated.values:
        value = reader.column(stated.values[0], "--value-column")
    if layout is Layout.LONG and not treatment:
        text = [index for index, words in zip(rest, is_text, strict=True) if words and index != value]
        if len(text) != 1:
            raise FormatError(
                f"{reader.path}: no column of this long table names the treatment; say which of "
                f"{quoted(reader.header)} with --treatment-column"
            )
        treatment = (text[0],)
    if layout is Layout.LONG and value is None:
        number = [i for i, words in zip(rest, is_text, strict=True) if not words and i not in treatment]
        value = number[0] if len(number) == 1 else None
    if value is None:
        raise FormatError(
            f"{reader.path}: no column of this {layout} table is known to hold the response; say which of "
            f"{quoted(reader.header, 12)} with --value-column"
        )
    status = _first(names, ["status"])
    if status is not None and not {cells[status] for _, cells in reader.sample} <= _STATES:
        status = None
    return ColumnRoles(
        layout=layout,
        gene=gene,
        treatment=treatment if layout is Layout.LONG else (),
        values=(value,),
        effect=value == effect,
        status=status,
        standard_error=_first(names, _STANDARD_ERROR),
        padj=_first(names, _PADJ),
    )


def _gene_column(reader: TableReader, stated: ResponseColumns, promoters: GeneNames | None) -> int:
    if stated.gene is not None:
        return reader.column(stated.gene, "--gene-column")
    columns = [[cells[i] for _, cells in reader.sample] for i in range(len(reader.header))]
    column, first = 0, columns[0]
    named = _first({_plain(name): i for i, name in enumerate(reader.header)}, _GENE)
    known_first = bool(reader.header[0]) and _plain(reader.header[0]) in _GENE
    if (
        named is not None
        and not known_first
        and (
            all(map(str.isdigit, first))
            or _plain(reader.header[0]) in (*_TREATMENT, *_VALUE, *_GROUPS)
            # Row names that R made unique: G, G.1, G.2 (make.unique), G, G1 (rbind).
            or (not reader.header[0] and all(map(str.startswith, first, columns[named])))
        )
    ):
        column = named
    if promoters is not None:
        known = [promoters.share(cells) for cells in columns]
        if max(known) and known[column] <= max(known) / 2:
            column = known.index(max(known))
    return column


def _stacked_by(reader: TableReader, gene: int, measures: Sequence[int]) -> tuple[int, ...]:
    """Columns that together tell the rows of one gene apart, so that the table is several contrasts in one.

    measures: columns that are results; the first holds the effects. Of the columns that do, and are not results
    (`_OUTCOME`, numbers that are not whole), those are taken that are fewest, then are named like treatments, then
    have the fewest values. Empty where no gene has two effects.

    Raises: FormatError where effects of a gene differ and no columns do.
    """
    header, rows = reader.header, reader.kept_rows()
    names = given = [cells[gene] for _, cells in rows]
    if not header[gene]:
        names = _without_r_numbers(given)
    frame = pd.DataFrame([cells for _, cells in rows]).assign(gene=names).drop(columns=gene)
    frame = frame[~frame["gene"].map(is_missing)].drop_duplicates()
    repeated = int(frame.duplicated("gene").sum())
    if not repeated:
        return ()
    genes = frame["gene"].nunique()
    ranked: list[tuple[bool, int, bool, int]] = []
    for index in [index for index in range(len(header)) if index not in (gene, *measures)]:
        values = frame[index].unique().tolist()
        known = bool(_NAMES_TREATMENT.search(_plain(header[index])))
        if (
            1 < len(values) <= genes
            and not all(map(_OUTCOME.fullmatch, values))
            and not any(is_number(value) and not value.isdigit() for value in values)
            and _plain(header[index]) not in _REPLICATE
        ):
            ranked.append((not known, len(values), values[0].isdigit(), index))
    ranked.sort()
    for size in (1, 2, 3):
        # Two columns of many numbers tell most rows apart by chance.
        candidates = [
            index for _, levels, number, index in ranked if size == 1 or not number or levels <= FEW_LEVELS
        ]
        for chosen in itertools.combinations(candidates[:8], size):
            if frame.duplicated(["gene", *chosen]).sum() <= FEW_LEFT * repeated:
                for (_, cells), name in zip(rows, names, strict=True):
                    cells[gene] = name
                return tuple(sorted(chosen))
    differing = frame.groupby("gene", sort=False)[measures[0]].nunique()
    if names is given and differing.max() > 1 and not any(_plain(name) in _TREATMENT for name in header):
        name = str(differing.idxmax())
        lines = [number for number, cells in rows if cells[gene] == name]
        raise FormatError(
            f"{reader.path}: {name!r} has different values of {header[measures[0]]!r} in lines "
            f"{quoted(list(map(str, lines)), 3)}, and no column tells its contrast; add one that names it, give "
            "each contrast as NAME=FILE, or say --layout contrast to average the rows of a gene"
        )
    return ()


def _without_r_numbers(names: list[str]) -> list[str]:
    """Row names before R made them unique: G, G1 (rbind), G, G.1 (make.unique) or G...1, G...9 (bind_rows).

    Only where a fifth of them end so; gene names can end so as well.

    >>> _without_r_numbers(["AT1", "AT2", "AT11", "AT2.1"]), _without_r_numbers(["a...1", "b...2"])
    (['AT1', 'AT2', 'AT1', 'AT2'], ['a', 'b'])
    """
    known = set(names)
    bare: list[str] = []
    for name in names:
        stem, dots, _ = name.rpartition("...")
        shorter = (
            name[:end].removesuffix(".")
            for end in range(len(name) - 1, len(name.rstrip("0123456789")) - 1, -1)
        )
        bare.append(stem if dots else next((stem for stem in shorter if stem in known), name))
    changed = sum(map(str.__ne__, bare, names))
    return bare if changed >= len(names) / 5 else names


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
    sources: Sequence[ResponseSource | Path],
    columns: ResponseColumns | None = None,
    promoters: GeneNames | None = None,
) -> Responses:
    """Read and join response tables. promoters: tell which column, or side of an AnnData file, names genes.

    Raises: FormatError for what cannot be understood (file, line, column); BioattnError when two tables both hold
    a treatment as a column, or a name was given to a table that is not a contrast.
    """
    stated = columns or ResponseColumns()
    tables = _Tables()
    for source in sources:
        path, name = source if isinstance(source, ResponseSource) else ResponseSource(source)
        if path.is_file() and h5py.is_hdf5(path):
            _read_anndata(path, stated, promoters, tables)
        else:
            _read_table(path, name, stated, promoters, tables)
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


def _read_table(
    path: Path, name: str | None, stated: ResponseColumns, promoters: GeneNames | None, tables: _Tables
) -> None:
    reader = open_table(path, stated.sheet)
    refuse_duplicate_columns(reader)
    if not reader.sample:
        raise FormatError(f"{path}: the table has a header but no rows")
    roles, earlier = find_columns(reader, stated, promoters), len(tables.genes)
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
    dates = list(filter(_DATE.fullmatch, itertools.islice(tables.genes, earlier, None)))
    if dates:
        LOGGER.warning(
            f"{path}: {counted(len(dates), 'gene name')} became a date in Excel: {quoted(dates)}; write the names "
            "again (MARCH1 or MARCHF1 for 1-Mar, SEPT2 or SEPTIN2 for 2-Sep, DEC1 or DELEC1 for 1-Dec)"
        )


def _read_anndata(path: Path, stated: ResponseColumns, promoters: GeneNames | None, tables: _Tables) -> None:
    table = read_expression(path, stated.sheet, next(iter(stated.treatment), None), stated.gene, promoters)
    genes = np.array([tables.genes.setdefault(gene, len(tables.genes)) for gene in table.index], dtype=int)
    treatments = np.array([tables.treatment(name, path, alone=True) for name in table.columns], dtype=int)
    tables.blocks.append(Cells((genes[:, None], treatments[None]), table.to_numpy(np.float64), None, None))


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
    without_value: Counter[str] = Counter()
    for line, cells in reader.rows():
        if is_missing(cells[roles.gene]):
            without_id.append(line)
            continue
        if empty := [header[i] for i in roles.treatment if cells[i].lower() in NO_CATEGORY]:
            raise FormatError(f"{path}:{line}: no treatment in column {empty[0]!r}")
        treatment = "_".join(cells[i] for i in roles.treatment) or name
        if roles.effect:
            value, status = cells[roles.values[0]], "OK" if roles.status is None else cells[roles.status]
            if is_number(value) and abs(float(value)) > LARGEST_EFFECT:
                status = "infinite"
            if status != "OK":
                without_value[status] += 1
                cells = [*cells[: roles.values[0]], "", *cells[roles.values[0] + 1 :]]
        lines.append(line)
        genes.append(tables.genes.setdefault(cells[roles.gene], len(tables.genes)))
        treatments.append(tables.treatment(treatment, path, alone=not roles.treatment))
        numbers.append(parse_numbers([cells[i] for i in columns], _place(path, line, header, columns)))
    if not numbers:
        return 0
    if without_value:
        said = ", ".join(f"{reason} {number:,}" for reason, number in without_value.items())
        LOGGER.warning(f"{path}: effects that are infinite or were not tested are missing ({said})")
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
    if roles.treatment:
        parts.append(f"treatments in {listed([repr(header[i]) for i in roles.treatment])}")
    parts.append(f"values in {header[roles.values[0]]!r}")
    if roles.standard_error is not None:
        parts.append(f"standard errors in {header[roles.standard_error]!r}")
    if roles.padj is not None:
        parts.append(f"adjusted p in {header[roles.padj]!r}")
    return ", ".join(parts)
