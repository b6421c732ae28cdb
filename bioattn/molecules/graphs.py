"""Molecules as graphs of atoms and bonds in flat arrays, a few hundred bytes each; nothing here needs RDKit.

Shape suffixes: N atoms of all molecules, M bonds of all molecules, F features of an atom.
"""

from array import array
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ELEMENTS = ("other", "C", "N", "O", "S", "F", "Cl", "Br", "I", "P", "B", "Si", "Se")
ATOM_FEATURES = {
    "element": len(ELEMENTS),
    "neighbours": 6,
    "hydrogens": 5,
    "charge": 5,
    "aromatic": 2,
    "ring": 2,
    "chirality": 3,
}
"""Features of an atom and how many values each has (Duvenaud et al. 2015, with ring, charge and chirality)."""
BOND_CODES = 16
"""Codes of bonds: 4 types × conjugated × in a ring; 0..15."""
FINGERPRINT_BITS = 2048
"""Of Morgan fingerprints of radius 2."""


class Molecule(NamedTuple):
    """One molecule, cleaned."""

    smiles: str
    """Canonical; its atoms stand in the order of `atoms`."""
    atoms: NDArray[np.uint8]
    """(atoms, F)."""
    bonds: NDArray[np.uint16]
    """(bonds, 3): two atoms, from 0, and a code."""
    fingerprint: bytes
    """`FINGERPRINT_BITS` bits."""
    scaffold: str
    """Its Murcko scaffold as SMILES; empty without rings."""
    notes: tuple[str, ...]
    """What cleaning changed, or what is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Molecules:
    """Many molecules."""

    ids: list[str]
    smiles: list[str]
    atom_offset: NDArray[np.int64]
    """Where each molecule's atoms begin, and the end of the last."""
    atoms_NF: NDArray[np.uint8]
    bond_offset: NDArray[np.int64]
    bonds_M3: NDArray[np.uint16]
    fingerprints: NDArray[np.uint8]
    """(molecules, bits / 8)."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Atoms of each molecule."""
        return np.diff(self.atom_offset)

    def graph(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """Atoms (atoms, F) and bonds (bonds, 3) of one molecule."""
        atoms = slice(*self.atom_offset[number : number + 2])
        return self.atoms_NF[atoms], self.bonds_M3[slice(*self.bond_offset[number : number + 2])]


class Collector:
    """Puts molecules together one by one, in compact form."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._smiles: list[str] = []
        self._offsets = array("q", [0]), array("q", [0])
        self._atoms, self._bonds, self._bits = bytearray(), bytearray(), bytearray()

    def add(self, name: str, molecule: Molecule) -> int:
        """Take a molecule; returns its number, from 0."""
        self._ids.append(name)
        self._smiles.append(molecule.smiles)
        self._atoms += molecule.atoms.tobytes()
        self._bonds += molecule.bonds.astype("<u2").tobytes()
        self._bits += molecule.fingerprint
        for offset, number in zip(self._offsets, (len(molecule.atoms), len(molecule.bonds)), strict=True):
            offset.append(offset[-1] + number)
        return len(self._ids) - 1

    def molecules(self) -> Molecules:
        atom_offset, bond_offset = (np.array(offset, dtype=np.int64) for offset in self._offsets)
        return Molecules(
            self._ids,
            self._smiles,
            atom_offset,
            np.frombuffer(self._atoms, np.uint8).reshape(-1, len(ATOM_FEATURES)),
            bond_offset,
            np.frombuffer(self._bonds, "<u2").reshape(-1, 3),
            np.frombuffer(self._bits, np.uint8).reshape(-1, FINGERPRINT_BITS // 8),
        )
