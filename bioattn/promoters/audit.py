"""The audit table: one row for every gene of the annotation, what became of its promoter and why."""

from collections import Counter
from collections.abc import Sequence
from io import TextIOBase
from typing import NamedTuple

from bioattn.text import counted

COLUMNS = (
    "gene_id",
    "chrom",
    "strand",
    "anchor",
    "start",
    "end",
    "length",
    "status",
    "reason",
    "other_genes",
    "masked",
    "fraction_n",
    "gc",
    "name",
    "biotype",
    "transcript",
)


class AuditRow(NamedTuple):
    """What became of one gene; None stands for an empty field."""

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


def write_audit(file: TextIOBase, rows: Sequence[AuditRow]) -> None:
    """Write the table with its header."""
    file.write("\t".join(COLUMNS) + "\n")
    for row in rows:
        length = None if row.start is None or row.end is None else row.end - row.start
        fields = (
            row.gene_id,
            row.chrom,
            row.strand,
            row.anchor,
            row.start,
            row.end,
            length,
            row.status,
            row.reason,
            ",".join(row.other_genes),
            row.masked,
            row.fraction_n,
            row.gc,
            row.name,
            row.biotype,
            row.transcript,
        )
        file.write("\t".join(_text(field) for field in fields) + "\n")


def _text(field: str | int | float | None) -> str:
    if field is None:
        return ""
    if isinstance(field, float):
        return f"{field:.6f}"
    return " ".join(field.split()) if isinstance(field, str) else str(field)


def summarise(rows: Sequence[AuditRow]) -> str:
    """One line of counts: kept, trimmed and dropped, with reasons."""
    statuses = Counter(row.status for row in rows)
    parts = [f"{statuses['kept']:,} kept"]
    for status in ("trimmed", "dropped"):
        if statuses[status]:
            reasons = Counter(row.reason for row in rows if row.status == status)
            named = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
            parts.append(f"{statuses[status]:,} {status} ({named})")
    return f"{counted(len(rows), 'gene')}: " + "; ".join(parts)
