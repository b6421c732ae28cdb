"""Residues with their atoms, as the PDB and mmCIF writers take them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import BioattnError

CHAIN = "A"
"""The chain that writers name their one chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureResidue:
    """One residue of a predicted chain."""

    name: str
    """Three-letter name, `UNK` for an unknown residue."""
    number: int
    """Residue number, as in `auth_seq_id`; unique in its chain."""
    atoms: Mapping[str, tuple[float, float, float]]
    """Å by PDB atom name, in the order they are written; the name begins with the element's one letter."""
    confidence: float
    """pLDDT, 0..100; written as B-factor."""


def check_residues(path: Path, residues: Sequence[StructureResidue]) -> None:
    """Raises: BioattnError when a number is given twice, or a coordinate or confidence is no number."""
    seen: set[int] = set()
    for residue in residues:
        where = f"{path}: residue {residue.name} {residue.number}"
        if residue.number in seen:
            raise BioattnError(f"{where}: the residue number is given twice; number the residues differently")
        seen.add(residue.number)
        if not math.isfinite(residue.confidence):
            raise BioattnError(f"{where}: its pLDDT is not a number; check the parameters of the model")
        for atom, position in residue.atoms.items():
            if not all(map(math.isfinite, position)):
                raise BioattnError(
                    f"{where}: the place of atom {atom} is not a number; check the parameters of the model"
                )
