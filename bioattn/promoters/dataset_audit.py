"""The audit of a dataset: every gene and treatment of the inputs kept or dropped, and why."""

from typing import NamedTuple


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
    """`train`, `validation` or `test` for what was kept."""
    values: int | None = None
    """Responses it has in the dataset."""
    detail: str = ""
    """Names that explain the reason."""
