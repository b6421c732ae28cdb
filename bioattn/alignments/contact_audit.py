"""The audit of a contact dataset: every pair of alignment and structure kept or refused, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bioattn.alignments.contact_dataset import SPLIT_NAMES
from bioattn.text import counted


class ContactAuditRow(NamedTuple):
    """One pair, kept or refused; None and "" stand for an empty field."""

    id: str
    status: str
    """kept or refused."""
    reason: str = ""
    """Of a refusal: structure, alignment, mapping or sequence."""
    group: str = ""
    split: str = ""
    chain: str = ""
    rows: int | None = None
    """In the file."""
    distinct_rows: int | None = None
    """Without duplicates."""
    kept_rows: int | None = None
    """With --max-depth."""
    columns: int | None = None
    mapped: int | None = None
    """Columns with a residue in the structure."""
    contacts: int | None = None
    """Pairs of columns nearer than 8 ångström, at least 6 columns apart."""
    closest_row: str = ""
    """Name of the row the chain was aligned to or, with a mapping, agrees with best."""
    identity: float | None = None
    """Part of the residues aligned to that row that equal it."""
    missing_cb: int | None = None
    """Residues of the chain other than glycine without CB."""
    detail: str = ""
    """Why it was refused, in a sentence."""


def summary(rows: Sequence[ContactAuditRow]) -> str:
    """One line of counts, those of each side of the split among them."""
    kept = [row for row in rows if row.status == "kept"]
    reasons = Counter(row.reason for row in rows if row.status == "refused")
    groups = counted(len({row.group for row in kept}), "group")
    sides = Counter(row.split for row in kept)
    splits = ", ".join(f"{name} {sides[name]:,}" for name in SPLIT_NAMES)
    text = f"{counted(len(rows), 'pair')}: {len(kept):,} kept in {groups} ({splits})"
    if reasons:
        named = ", ".join(f"{reason} {count:,}" for reason, count in sorted(reasons.items()))
        text += f", {sum(reasons.values()):,} refused ({named})"
    return text
