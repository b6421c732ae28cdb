"""The audit of a dataset: one row for every gene and every treatment anybody named, and what became of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

COLUMNS = ("kind", "name", "status", "reason", "split", "values", "detail")


class AuditRow(NamedTuple):
    """What became of one gene or treatment."""

    kind: str
    """`gene` (of the promoters or the response tables), `treatment`, `sample` (a replicate) or `table row`."""
    name: str
    status: str
    """`kept` or `dropped`; samples are `averaged`, rows of the treatment table without responses `unused`."""
    reason: str = ""
    """Why it was dropped, or what is to be known about it, in a few fixed words."""
    split: str = ""
    """`train`, `validation` or `test` for what was kept."""
    values: int | None = None
    """Responses it has in the dataset."""
    detail: str = ""
    """Names that explain the reason."""


def audit_path(output: Path) -> Path:
    """Where the audit of a dataset stands: `X.dataset.h5` has `X.dataset.audit.tsv`."""
    stem = output.name
    for suffix in (".h5", ".hdf5"):
        stem = stem.removesuffix(suffix)
    return output.with_name(stem + ".audit.tsv")


def audit_text(rows: Iterable[AuditRow]) -> str:
    """The audit as TSV with a header."""
    lines = ["\t".join(COLUMNS)]
    for row in rows:
        cells = ["" if cell is None else str(cell).replace("\t", " ") for cell in row]
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"
