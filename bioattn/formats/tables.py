"""Tables as people have them: TSV, CSV, semicolons or R's blanks, plain, gzip or xz, and sheets of workbooks.

`open_table` looks at the content, never at the file name, and hands out rows one at a time with their line
numbers, so that every complaint can say where. Nothing is renamed or guessed; rows that repeat the header are left
out and listed in `TableReader.repeated_headers`.
"""

import csv
import datetime as dt
import io
import itertools
import math
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_lines, text_output
from bioattn.text import counted, quoted

if TYPE_CHECKING:
    import pandas as pd

MISSING = frozenset(
    {"", "na", "nan", "n/a", "n.a.", "n.d.", "#n/a", "#div/0!", "#num!", "null", "none", "-", "."}
)
"""Cells that mean "no value", compared without case and surrounding blanks."""

SAMPLE_ROWS = 200
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_SEPARATOR = re.compile(r"\s*sep=.\s*")

Row = tuple[int, list[str]]


@dataclass(slots=True)
class TableReader:
    """An open table: its header, a sample of the first rows, and one pass over all rows.

    `header` has one name per column; the first is "" when the row names have no header (R, pandas).
    `sample` holds up to `SAMPLE_ROWS` rows; `rows()` yields them again, then the rest, and can be used once.
    """

    path: Path
    header: tuple[str, ...]
    header_line: int
    sample: list[Row]
    repeated_headers: list[int]
    """Line numbers of rows that repeat the header (files glued together), as far as was read."""
    _rest: Iterator[Row]

    def rows(self) -> Iterator[Row]:
        """(1-based line number, cells without surrounding blanks), as many cells as the header has names.

        Raises: FormatError naming the line of a row with another number of cells.
        """
        yield from self.sample
        yield from self._rest

    def kept_rows(self) -> list[Row]:
        """All rows, which stay in `sample`, so that `rows` yields them again."""
        self.sample = [*self.sample, *self._rest]
        return self.sample

    def column(self, name: str, option: str) -> int:
        """Index of column `name`; `option` is what the user said, for the message.

        Raises: FormatError listing the columns there are.
        """
        if name in self.header:
            return self.header.index(name)
        raise FormatError(f"{self.path}: {option}: there is no column {name!r}; it has {quoted(self.header)}")


def open_table(path: Path, sheet: str | None = None) -> TableReader:
    """Open a delimited table, or a sheet of a workbook (the first one unless `sheet` names it).

    The delimiter is what the header line is cut by: tab, else semicolon, else comma, else blanks. Lines that
    begin with `#` before the header are comments, except one like `#gene<tab>heat` right above the rows with as
    many cells as they have (a commented-out header); so are GEO's `!` lines, the sizes of GCT and Excel's `sep=;`.
    Quotes follow the CSV rules, but a quoted cell ends on its line. A header one cell short gets "" in front (R's
    `write.table`), or behind where the rows end in a delimiter. Decimal commas, as many spreadsheets save them,
    become points where they cannot be anything else.

    Column names may repeat; see `refuse_duplicate_columns`.

    Raises: FormatError for an empty file, a file of one column, or a sheet that is not there; BioattnError for a
    workbook without openpyxl.
    """
    repeated: list[int] = []
    if path.is_file() and zipfile.is_zipfile(path):
        (header_line, header), *sheet_rows = _read_sheet(path, sheet)
        repeated += [number for number, row in sheet_rows if row == header]
        rows = iter([row for row in sheet_rows if row[1] != header])
        sample = list(itertools.islice(rows, SAMPLE_ROWS))
        return TableReader(path, tuple(header), header_line, sample, repeated, rows)
    if sheet is not None:
        raise FormatError(f"{path}: --sheet {sheet!r}: this is text and has no sheets")
    header_line, header_text, lines = _find_header(path)
    delimiter = _delimiter_of(header_text)
    if delimiter is None:
        raise FormatError(
            f"{path}:{header_line}: the header {_shown(header_text)} is a single column; "
            "separate columns by tabs or commas"
        )
    header = _split(path, header_line, header_text, delimiter)
    rows = _rows(path, lines, delimiter, header, repeated)
    first = list(itertools.islice(rows, SAMPLE_ROWS))
    cells = [cell for _, row in first for cell in row]
    commas = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    points = any("." in cell and is_number(cell) for cell in cells)
    # Some cells are like `0,53`, none has a decimal point, and not all can be thousands.
    if delimiter != "," and not points and not all(_THOUSANDS.fullmatch(cell) for cell in commas):
        first, rows = list(map(_with_points, first)), map(_with_points, rows)
    return TableReader(path, tuple(header), header_line, first, repeated, rows)


def refuse_duplicate_columns(reader: TableReader) -> None:
    """Raise FormatError when two columns share a name, saying which and where (pandas would rename them)."""
    header = reader.header
    twice = next((name for i, name in enumerate(header) if name and name in header[:i]), None)
    if twice is not None and all(map(is_number, header[1:])):
        raise FormatError(
            f"{reader.path}:{reader.header_line}: the first line looks like data ({quoted(header, 4)}); the table "
            "needs a header that names its columns"
        )
    if twice is not None:
        places = ", ".join(str(i + 1) for i, name in enumerate(header) if name == twice)
        raise FormatError(
            f"{reader.path}:{reader.header_line}: the column {twice!r} occurs more than once (columns {places}); "
            "give each its own name (replicates are averaged by a column of the treatment table, "
            "see --replicate-column)"
        )


def write_table(path: Path, table: "pd.DataFrame", float_format: str | None = None) -> None:
    """Write a tab-separated table with a header and without an index; a `.gz` name gives gzip."""
    with text_output(path) as file:
        table.to_csv(file, sep="\t", index=False, float_format=float_format, lineterminator="\n")


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value.

    >>> [is_missing(cell) for cell in ("", "NA", " NaN ", "null", "-", "0", "-1")]
    [True, True, True, True, True, False, False]
    """
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a cell is a plain number (decimal point, no thousands separators), infinities included.

    >>> [is_number(cell) for cell in ("1", "-2.5e3", "Inf", "1,5", "1_000", "b0001")]
    [True, True, True, False, False, False]
    """
    try:
        value = float(cell)
    except ValueError:
        return False
    return "_" not in cell and not math.isnan(value)


def has_comma(cell: str) -> bool:
    """Whether a cell is a number but for its comma, a decimal one or one between thousands.

    >>> [has_comma(cell) for cell in ("0,53", "1,234.5", "1.5", "a,b", "1,23,4")]
    [True, True, False, False, False]
    """
    return bool(_DECIMAL_COMMA.fullmatch(cell) or _THOUSANDS.fullmatch(cell))


def limit_of(cell: str) -> str | None:
    """The number of a cell such as `<0.001` or `>10`, beyond which a value lies; None for other cells.

    >>> [limit_of(cell) for cell in ("<0.001", "> 10", "<=2e-16", ">a", "10")]
    ['0.001', '10', '2e-16', None, None]
    """
    if not cell.startswith(("<", ">", "≤", "≥")):
        return None
    number = cell.lstrip("<>=≤≥ ")
    return number if is_number(number) else None


def parse_numbers(cells: Sequence[str], where: Callable[[int], str]) -> npt.NDArray[np.float64]:
    """Numbers of a row (or column) of cells, NaN where missing.

    `where(i)` says for messages where cell i stands, such as "a.tsv:7, column 'heat'".

    Raises: FormatError for text, infinities and ambiguous commas.
    """
    try:
        values = np.array([float(cell) if cell else math.nan for cell in cells], dtype=np.float64)
        plain = not any("_" in cell for cell in cells)
    except ValueError:
        plain = False
    if not plain:
        values = np.array([_slow_number(cell, where(i)) for i, cell in enumerate(cells)], np.float64)
    infinite = np.flatnonzero(np.isinf(values) | (np.abs(values) > np.finfo(np.float32).max))
    if infinite.size:
        i = int(infinite[0])
        raise FormatError(
            f"{where(i)}: the value {cells[i].strip()} is infinite or too large; "
            "write NA where there is none (log of zero: add a pseudocount)"
        )
    return values


def _with_points(row: Row) -> Row:
    number, cells = row
    return number, [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]


def _slow_number(cell: str, where: str) -> float:
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    if is_number(text):
        return float(text)
    if has_comma(text):
        raise FormatError(
            f"{where}: {text!r} has a comma (decimal comma or thousands separator?); write numbers as 1234.5"
        )
    raise FormatError(f"{where}: {_shown(text)} is not a number; write NA where there is no value")


def _find_header(path: Path) -> tuple[int, str, Iterator[tuple[int, str]]]:
    lines = (numbered for numbered in read_lines(path) if not numbered[1].startswith("!"))
    comment: tuple[int, str] | None = None
    for number, line in lines:
        if not line.strip() or _SEPARATOR.fullmatch(line):
            continue
        if line.startswith(("#1.2", "#1.3")) and number == 1:
            next(lines, None)
            continue
        if line.startswith("#"):
            comment = None if line[1:2].isspace() else (number, line)
            continue
        if comment is not None:
            text = comment[1].lstrip("#")
            delimiter = _delimiter_of(text)
            if delimiter is not None and delimiter != " ":
                cells = _split(path, comment[0], text, delimiter)
                if len(cells) == len(_split(path, number, line, delimiter)):
                    return comment[0], text, itertools.chain([(number, line)], lines)
        return number, line, lines
    raise FormatError(f"{path}: is empty; a header line and rows are needed")


def _delimiter_of(line: str) -> str | None:
    outside_quotes = re.sub(r'"[^"]*"', "", line)
    for delimiter in ("\t", ";", ","):
        if delimiter in outside_quotes:
            return delimiter
    return " " if len(outside_quotes.split()) > 1 or '" "' in line else None


def _split(path: Path, number: int, line: str, delimiter: str) -> list[str]:
    if '"' not in line:
        cells = line.split(delimiter) if delimiter != " " else line.split()
    else:
        try:
            cells = next(
                csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=delimiter == " ")
            )
        except csv.Error as error:
            # Outside CSV a lone quote is an ordinary character (5'-"ends", inches), so only CSV is strict.
            if delimiter == "\t":
                cells = line.split("\t")
            else:
                raise FormatError(
                    f"{path}:{number}: a quoted cell does not end on its line ({error}); close the quote"
                ) from error
    return [cell.strip() for cell in cells]


def _rows(
    path: Path, lines: Iterator[tuple[int, str]], delimiter: str, header: list[str], repeated: list[int]
) -> Iterator[Row]:
    """Rows as wide as the header, to which "" is added when the first row has one cell more.

    In front, as row names have none; behind, where the rows end in a delimiter.
    """
    first = True
    begin = list(itertools.islice(lines, SAMPLE_ROWS))
    lines = itertools.chain(begin, lines)
    for number, line in lines:
        if not line.strip():
            continue
        cells = _split(path, number, line, delimiter)
        if cells == header or (header[0] == "" and cells == header[1:]):
            repeated.append(number)
            continue
        if first and len(cells) == len(header) + 1:
            last = (_split(path, number, line, delimiter)[-1] for number, line in begin if line.strip())
            header.insert(0 if any(last) else len(header), "")
        first = False
        if len(cells) != len(header):
            raise FormatError(
                f"{path}:{number}: the row has {counted(len(cells), 'cell')}, the header has {len(header)}; "
                "complete the row (an empty cell still needs its separator)"
            )
        yield number, cells


def _read_sheet(path: Path, sheet: str | None) -> list[Row]:
    """The rows of a sheet from its header on; titles of a single cell above the header are passed over."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise BioattnError(
            f"{path}: workbooks need openpyxl, which is not installed: pip install openpyxl (or save it as CSV)"
        ) from error
    try:
        # Of a path the name would matter too.
        book = load_workbook(io.BytesIO(path.read_bytes()), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, InvalidFileException) as error:
        raise FormatError(f"{path}: is a zip archive but no Excel workbook ({error}); unpack it") from error
    if sheet is not None and sheet not in book.sheetnames:
        raise FormatError(f"{path}: --sheet: there is no sheet {sheet!r}; it has {quoted(book.sheetnames)}")
    cells = book[sheet or book.sheetnames[0]].iter_rows(values_only=True)

    def text(cell: object) -> str:
        if isinstance(cell, dt.date):  # what Excel makes of gene names, as the sheet shows it: `1-Mar`
            return f"{cell.day}-{MONTHS[cell.month - 1]}"
        return "" if cell is None else str(cell).strip()

    numbered = [(number, list(map(text, row))) for number, row in enumerate(cells, start=1)]
    rows = [(number, row) for number, row in numbered if any(row)]
    header = next((index for index, (_, row) in enumerate(rows) if sum(map(bool, row)) > 1), None)
    if header is None:
        raise FormatError(
            f"{path}: the sheet holds no table; choose another one with --sheet: {quoted(book.sheetnames)}"
        )
    width = max(index for _, row in rows[header:] for index, cell in enumerate(row, start=1) if cell)
    return [(number, (row + [""] * width)[:width]) for number, row in rows[header:]]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
