"""Row 1 of an alignment, the target: its letters and the residue numbers of its columns."""

import re
from dataclasses import dataclass

from bioattn.formats.alignment import GAP, Alignment

_RANGE = re.compile(r"/(\d+)-(\d+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """The target of a prediction, by match column."""

    name: str
    letters: str
    """One letter per column, `-` where the target has a gap."""
    numbers: list[int | None]
    """Residue number per column, None where the target has a gap."""
    num_inserted: int
    """Residues that stand in no column."""

    @property
    def num_gaps(self) -> int:
        """Columns without residue."""
        return self.letters.count("-")


def target_row(alignment: Alignment) -> TargetRow:
    """Row 1 of `alignment`.

    Residues are numbered from 1, insertions counted; or from the first number of a name that ends in
    `/start-end`, as Pfam's do, when that says as many residues as there are.
    """
    inserted = alignment.insertions[0]
    num_inserted = sum(map(len, inserted.values()))
    letters = alignment.row(0)
    found = _RANGE.search(alignment.names[0])
    length = alignment.num_columns - letters.count("-") + num_inserted
    number = int(found[1]) if found and int(found[2]) - int(found[1]) + 1 == length else 1
    numbers: list[int | None] = []
    for column, residue in enumerate(alignment.residues[0]):
        number += len(inserted.get(column, ""))
        numbers.append(None if residue == GAP else number)
        number += int(residue != GAP)
    return TargetRow(name=alignment.names[0], letters=letters, numbers=numbers, num_inserted=num_inserted)
