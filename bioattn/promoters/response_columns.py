"""What the columns of a response table mean: wide, long, or one contrast of DESeq2, edgeR or limma."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bioattn.errors import FormatError
from bioattn.formats.tables import TableReader, is_missing, is_number
from bioattn.promoters.choices import Layout
from bioattn.text import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseColumns:
    """Columns as the user names them; None or empty = to be detected."""

    layout: Layout | None = None
    gene: str | None = None
    treatment: str | None = None
    values: tuple[str, ...] = ()
    """Wide: patterns (`hs_*`) of the treatments to use. Long and contrast: the one column of values."""


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
