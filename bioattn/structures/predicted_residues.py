"""Converts a model's atoms to the residues that the writers of structure files take."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.structure_residues import StructureResidue
from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, GROUP_ATOMS

UNKNOWN_NAME = "UNK"


def predicted_residues(
    aatype: NDArray[np.integer],
    atom37: NDArray[np.floating],
    plddt: NDArray[np.floating],
    numbers: Sequence[int] | None = None,
) -> list[StructureResidue]:
    """Residues with the atoms of their amino acids; an unknown residue has no atoms.

    aatype: (R,) 0..20. atom37: (R, 37, 3) Å. plddt: (R,) 0..100. numbers: R residue numbers, None = from 1.
    """
    residues = []
    for place, kind in enumerate(aatype):
        name = AMINO_ACIDS[kind] if kind < len(AMINO_ACIDS) else UNKNOWN_NAME
        atoms = {}
        for atom in GROUP_ATOMS.get(name, ()):
            x, y, z = atom37[place, ATOM37.index(atom.name)].tolist()
            atoms[atom.name] = (x, y, z)
        residues.append(
            StructureResidue(
                name=name,
                number=place + 1 if numbers is None else numbers[place],
                atoms=atoms,
                confidence=float(plddt[place]),
            )
        )
    return residues
