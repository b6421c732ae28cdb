"""The treatment table: what was done to the cells, one row per treatment, one column per feature."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import TableReader, is_missing, is_number, open_table, parse_numbers
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")

UNCONDITIONAL = "unconditional"
"""The name that stands for an unknown treatment."""

MOSTLY_NUMBERS = 0.8
"""A text column with at least this share of numbers is probably a number column with a slip: warned about."""

UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), ("min", 1 / 60)),
    **dict.fromkeys(("min", "minute", "minutes"), ("min", 1.0)),
    **dict.fromkeys(("h", "hr", "hour", "hours"), ("min", 60.0)),
    **dict.fromkeys(("d", "day", "days"), ("min", 1440.0)),
    "M": ("mM", 1e3),
    "mM": ("mM", 1.0),
    **dict.fromkeys(("uM", "µM"), ("mM", 1e-3)),
    "nM": ("mM", 1e-6),
}
"""Units that are converted: times to minutes, concentrations to mM. Others stay as they are."""

_AMOUNT_WITH_COMMA = re.compile(rf"\s*[-+]?\d+,\d+\s*({'|'.join(map(re.escape, UNITS))})\s*")
"""Amounts that nobody can read for sure: 1,000 mM may be one or a thousand."""
NO_CATEGORY = frozenset({"", "na", "nan", "n/a", "#n/a", "null"})
"""Missing cells of a category column; unlike in number columns `none` and `-` say something ("no inhibitor")."""


@dataclass(frozen=True)
class TreatmentTable:
    """Treatments and their features.

    `frame`: index = treatment names (unique str, in the order of the file), one column per feature: `object`
    columns hold str, "" where missing (categories); `float64` columns hold numbers, NaN where missing. A table
    may have no columns.
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        index = self.frame.index
        if not index.is_unique:
            raise BioattnError(f"treatment table: {index[index.duplicated()][0]!r} occurs more than once")
        if not self.frame.columns.is_unique:
            raise BioattnError("treatment table: two columns have the same name")

    def __repr__(self) -> str:
        return repr(self.frame if self.columns else pd.DataFrame({"treatment": self.names}))

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.frame.index]

    @property
    def columns(self) -> list[str]:
        """Feature names, in order."""
        return [str(name) for name in self.frame.columns]

    def is_numeric(self, column: str) -> bool:
        """Tell whether a feature is a number (otherwise it is a category)."""
        return self.frame[column].dtype == np.float64

    def select(
        self, names: Sequence[str], option: str = "treatment", source: object = "the treatment table"
    ) -> "TreatmentTable":
        """The rows of `names`, in that order. `option` and `source` begin the message."""
        known = dict.fromkeys(self.names)
        for name in names:
            if name not in known:
                raise not_there(option, name, source, "treatment", known)
        return TreatmentTable(self.frame.loc[list(names)])


def select_treatments(
    known: TreatmentTable, names: Sequence[str] = (), table: TreatmentTable | None = None
) -> TreatmentTable:
    """The treatments to ask for: rows of `table`, or of the training treatments `known`; `names` chooses.

    `unconditional` is always a name: the model's token for an unknown treatment, if it was trained with one.
    """
    source = known if table is None else table
    where = "the model" if table is None else "the treatment table"
    if not names:
        return source
    if len(set(names)) != len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise SettingsError(f"--treatment {twice!r} is given twice")
    if UNCONDITIONAL not in names or UNCONDITIONAL in source.names:
        return source.select(names, "--treatment", where)
    chosen = source.select([name for name in names if name != UNCONDITIONAL], "--treatment", where).frame
    return TreatmentTable(chosen.reindex(list(names)))


def named_treatments(
    names: Sequence[str], features: Mapping[str, Any] = MappingProxyType({}), title: str = "treatment"
) -> TreatmentTable:
    """Make a table of numbers (None = missing) and categories by feature. title: of the column of names."""
    index = pd.Index(list(names), dtype=object, name=title)
    columns = {}
    for name, values in features.items():
        numeric = all(value is None or isinstance(value, int | float) for value in values)
        columns[name] = pd.Series(values, index=index, dtype=float if numeric else object)
    return TreatmentTable(pd.DataFrame(columns, index=index))


def read_treatment_table(path: Path) -> TreatmentTable:
    """Read a TSV/CSV whose first column names the treatments; the other columns are features.

    A column whose cells are all numbers or missing is a number, any other is a category. Columns without a name
    and without a value are left out, and of two equal columns of one name one is kept; both are logged.
    """
    reader = open_table(path)
    line_of: dict[str, int] = {}
    rows: list[list[str]] = []
    for line, cells in reader.rows():
        name = cells[0]
        if name.lower() in NO_CATEGORY:
            raise FormatError(f"{path}:{line}: the treatment has no name (first column {name!r})")
        if name in line_of:
            raise FormatError(
                f"{path}:{line}: the treatment {name!r} has a row already (line {line_of[name]}); "
                "give each treatment one row"
            )
        line_of[name] = line
        rows.append(cells)
    if not rows:
        raise FormatError(f"{path}: the treatment table has a header but no rows")
    if reader.repeated_headers:
        LOGGER.warning(
            f"{path}: skipped {len(reader.repeated_headers):,} rows that repeat the header, "
            f"first at line {reader.repeated_headers[0]}"
        )
    names, lines = list(line_of), list(line_of.values())
    columns = [list(cells) for cells in zip(*rows, strict=True)]
    features = {
        reader.header[index]: _typed(path, reader.header[index], columns[index], lines)
        for index in _feature_columns(reader, columns)
    }
    return named_treatments(names, features, reader.header[0] or "treatment")


def average_features(
    table: TreatmentTable, groups: Sequence[str]
) -> tuple[TreatmentTable, dict[str, list[str]]]:
    """Merge groups of treatments into one row each, with the features on which the members of every group agree.

    `groups` names the group of each row of `table`. Groups come in order of first appearance. Returns the table
    and, for every feature left out because some group's members differ, these groups with their values.
    """
    differing: dict[str, list[str]] = {}
    for column in table.columns:
        grouped = table.frame[column].groupby(np.array(groups, dtype=object), sort=False)
        several = [
            (group, values.unique().tolist()) for group, values in grouped if values.nunique(dropna=False) > 1
        ]
        if several:
            differing[column] = [f"{group!r} of {quoted(values, 4)}" for group, values in several]
    first = ~pd.Index(groups).duplicated()
    frame = table.frame.loc[first, [column for column in table.columns if column not in differing]]
    frame.index = pd.Index(list(dict.fromkeys(groups)), dtype=object, name=table.frame.index.name)
    return TreatmentTable(frame), differing


def _feature_columns(reader: TableReader, columns: list[list[str]]) -> list[int]:
    """Columns that are features; the first (names), empty nameless ones and repetitions are not."""
    first: dict[str, int] = {}
    for index, name in enumerate(reader.header[1:], start=1):
        if not name:
            if any(columns[index]):
                raise FormatError(
                    f"{reader.path}:{reader.header_line}: column {index + 1} has values but no name"
                )
        elif name not in first:
            first[name] = index
        elif columns[first[name]] == columns[index]:
            LOGGER.warning(
                f"{reader.path}: columns {first[name] + 1} and {index + 1} are both called {name!r} and hold "
                "the same; one is kept"
            )
        else:
            raise FormatError(
                f"{reader.path}:{reader.header_line}: columns {first[name] + 1} and {index + 1} are both called "
                f"{name!r} and differ; rename one"
            )
    return list(first.values())


def _typed(path: Path, name: str, cells: list[str], lines: list[int]) -> Any:
    """A number column or a category column, as its cells say."""

    def where(row: int) -> str:
        return f"{path}:{lines[row]}, column {name!r}"

    present = [cell for cell in cells if not is_missing(cell)]
    numbers = sum(map(is_number, present))
    if present and numbers == len(present):
        return parse_numbers(cells, where)
    with_points = [is_number(cell.replace(",", ".", 1)) for cell in present]
    amounts = [i for i, cell in enumerate(cells) if _AMOUNT_WITH_COMMA.fullmatch(cell)]
    if amounts or (present and all(with_points)):
        row = amounts[0] if amounts else next(i for i, cell in enumerate(cells) if "," in cell)
        raise FormatError(
            f"{where(row)}: {cells[row]!r} has a comma (decimal comma or thousands separator?); "
            "write numbers as 1234.5"
        )
    if numbers >= MOSTLY_NUMBERS * max(1, len(present)):
        row = next(i for i, cell in enumerate(cells) if not is_missing(cell) and not is_number(cell))
        LOGGER.warning(
            f"{where(row)}: {cells[row]!r} is not a number while {numbers} of {len(present)} values are; "
            "the column is taken as categories"
        )
    return np.array(["" if cell.lower() in NO_CATEGORY else cell for cell in cells], dtype=object)
