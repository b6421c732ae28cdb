"""`families.tsv` of a model folder: proteins that a model of contacts was trained on, and queries like them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import ContactProtein
from bioattn.formats.tables import open_table, write_table
from bioattn.structures.chain import aligned_residues, expected_alignments, protein_aligner, scorable

FAMILIES_TABLE = "families.tsv"
ALIKE = 1e-3
"""Local alignments of so high a score that chance gives of two sequences, below which these are alike."""
GAP = -12
"""Score of the first residue of a gap."""


def write_families(folder: Path, proteins: Iterable[ContactProtein]) -> None:
    """Write id, group, number of rows and the sequence of the first row of each protein."""
    rows = [(each.id, each.group, each.num_rows, letters_of(each.aatype)) for each in proteins]
    write_table(folder / FAMILIES_TABLE, pd.DataFrame(rows, columns=["family", "group", "rows", "sequence"]))


def read_families(folder: Path) -> dict[str, str]:
    """Sequences by family; empty for a folder without the table. Raises: FormatError for a damaged one."""
    path = folder / FAMILIES_TABLE
    if not path.is_file():
        return {}
    table = open_table(path)
    family, sequence = (table.column(name, FAMILIES_TABLE) for name in ("family", "sequence"))
    return {cells[family]: cells[sequence] for _, cells in table.rows()}


def most_alike(letters: str, families: Mapping[str, str]) -> tuple[str, float] | None:
    """The family whose sequence is most like a query (gaps left out), and the share of equal residues among those
    aligned; None where none is more alike than by chance."""
    query = scorable(letters.replace("-", "").upper())
    found = {
        name: expected_alignments(query, scorable(known), opening=GAP) for name, known in families.items()
    }
    name = min(found, key=found.__getitem__, default="")
    if not name or found[name] > ALIKE:
        return None
    known = scorable(families[name])
    places, residues = aligned_residues(protein_aligner("local", GAP), query, known)
    equal = sum(query[i] == known[j] for i, j in zip(places, residues, strict=True))
    return name, equal / len(places)
