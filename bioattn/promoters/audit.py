"""The audit of promoters: every gene of the annotation kept, trimmed or dropped, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bioattn.io.audit import audit_text
from bioattn.text import counted


class AuditRow(NamedTuple):
    """One gene, kept, trimmed or dropped; None stands for an empty field."""

    gene_id: str
    chrom: str
    strand: str
    anchor: int | None
    """0-based anchor base."""
    start: int | None
    """0-based first base of the window (without flanks); negative where it is padded."""
    end: int | None
    status: str
    """kept, trimmed or dropped."""
    reason: str
    """Why it was trimmed or dropped (docs/formats/promoters.md); two reasons of a trim are joined by a comma."""
    other_genes: tuple[str, ...] = ()
    """Ids of the other genes the window reaches into, before any trimming at them."""
    masked: int | None = None
    """Bases of the window written as N because they lie in other genes."""
    fraction_n: float | None = None
    gc: float | None = None
    """G and C among the bases that are known; None when none is."""
    name: str = ""
    biotype: str = ""
    transcript: str = ""

    @property
    def length(self) -> int | None:
        """Bases of the window."""
        return None if self.start is None or self.end is None else self.end - self.start


COLUMNS = (*AuditRow._fields[:6], "length", *AuditRow._fields[6:])


def audit_table(rows: Sequence[AuditRow]) -> str:
    """The table as text, its header first."""
    return audit_text(COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in rows), decimals=6)


def summarise(rows: Sequence[AuditRow]) -> str:
    """Count the genes kept, trimmed and dropped, with reasons, in one line."""
    statuses = Counter(row.status for row in rows)
    parts = [f"{statuses['kept']:,} kept"]
    for status in ("trimmed", "dropped"):
        if statuses[status]:
            reasons = Counter(row.reason for row in rows if row.status == status)
            named = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
            parts.append(f"{statuses[status]:,} {status} ({named})")
    return f"{counted(len(rows), 'gene')}: " + "; ".join(parts)
