"""Audits: a table beside an output that says what became of every item of the input, and why."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bioattn.io.files import text_output

Cell = str | int | float | tuple[str, ...] | None


def audit_path(output: Path) -> Path:
    """Where the audit of a dataset stands: `X.dataset.h5` has `X.dataset.audit.tsv`."""
    return output.with_name(re.sub(r"\.(h5|hdf5)$", "", output.name) + ".audit.tsv")


def audit_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]], decimals: int = 3) -> str:
    """The audit as TSV with a header; None is an empty cell, names are joined by commas."""
    return "".join(_lines(columns, rows, decimals))


def write_audit(output: Path, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write the audit of the dataset `output` beside it."""
    with text_output(audit_path(output)) as file:
        file.writelines(_lines(columns, rows))


def _lines(columns: Sequence[str], rows: Iterable[Sequence[Cell]], decimals: int = 3) -> Iterator[str]:
    yield "\t".join(columns) + "\n"
    for row in rows:
        yield "\t".join(_text(cell, decimals) for cell in row) + "\n"


def _text(cell: Cell, decimals: int) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.{decimals}f}"
    return re.sub(r"\s", " ", ",".join(cell) if isinstance(cell, tuple) else str(cell))
