"""The audit of a dataset: one row for every gene and every treatment anybody named, and what became of it."""

from typing import NamedTuple


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
