"""The atoms of the 20 amino acids and their positions at ideal bond lengths and angles.

An amino acid is a tree of rigid groups: the backbone (0), the oxygen that turns with psi (3) and the atoms that
turn with chi1 to chi4 (4 to 7); groups 1 (omega) and 2 (phi) turn hydrogens only and hold no atom here. A position
is given in the frame of its group: the origin is the atom at the end of the group's rotation axis, x points along
the axis, and the atom that defines the torsion angle lies in the xy plane at positive y. The backbone frame has CA
at the origin, C on x and N in the xy plane. The numbers, in ångström, are those the published AlphaFold 2
parameters were trained with (supplement, 1.8.4 and table 2).

Orders used everywhere: `AMINO_ACIDS` (the model order of `aatype`), `ATOM37` (one slot per atom name), atom14 (the
order of an amino acid's atoms in the table below)."""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.structure_file import StructureResidue

# fmt: off
ATOM37 = (
    "N", "CA", "C", "CB", "O", "CG", "CG1", "CG2", "OG", "OG1", "SG", "CD", "CD1", "CD2", "ND1", "ND2", "OD1",
    "OD2", "SD", "CE", "CE1", "CE2", "CE3", "NE", "NE1", "NE2", "OE1", "OE2", "CH2", "NH1", "NH2", "OH", "CZ",
    "CZ2", "CZ3", "NZ", "OXT",
)
# fmt: on
"""The atom names of the 37 slots."""
BACKBONE = [ATOM37.index(name) for name in ("N", "CA", "C")]
"""The slots that give a residue its place and direction."""
NUM_GROUPS = 8
"""Backbone, omega, phi, psi, chi1 to chi4."""

_GROUP_ATOMS = """
ALA  0 N -0.525 1.363 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.627 1.062 0   0 CB -0.529 -0.774 -1.205
ARG  0 N -0.524 1.362 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.626 1.062 0   0 CB -0.524 -0.778 -1.209
     4 CG 0.616 1.390 0     5 CD 0.564 1.414 0      6 NE 0.539 1.357 0
     7 CZ 0.758 1.093 0     7 NH1 0.206 2.301 0     7 NH2 2.078 0.978 0
ASN  0 N -0.536 1.357 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.625 1.062 0   0 CB -0.531 -0.787 -1.200
     4 CG 0.584 1.399 0     5 OD1 0.633 1.059 0     5 ND2 0.593 -1.188 0.001
ASP  0 N -0.525 1.362 0     0 CA 0 0 0   0 C 1.527 0 0   3 O 0.626 1.062 0   0 CB -0.526 -0.778 -1.208
     4 CG 0.593 1.398 0     5 OD1 0.610 1.091 0     5 OD2 0.592 -1.101 -0.003
CYS  0 N -0.522 1.362 0     0 CA 0 0 0   0 C 1.524 0 0   3 O 0.625 1.062 0   0 CB -0.519 -0.773 -1.212
     4 SG 0.728 1.653 0
GLN  0 N -0.526 1.361 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.626 1.062 0   0 CB -0.525 -0.779 -1.207
     4 CG 0.615 1.393 0     5 CD 0.587 1.399 0      6 OE1 0.634 1.060 0     6 NE2 0.593 -1.189 -0.001
GLU  0 N -0.528 1.361 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.626 1.062 0   0 CB -0.526 -0.781 -1.207
     4 CG 0.615 1.392 0     5 CD 0.600 1.397 0      6 OE1 0.607 1.095 0     6 OE2 0.589 -1.104 -0.001
GLY  0 N -0.572 1.337 0     0 CA 0 0 0   0 C 1.517 0 0   3 O 0.626 1.062 0
HIS  0 N -0.527 1.360 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.625 1.063 0   0 CB -0.525 -0.778 -1.208
     4 CG 0.600 1.370 0     5 ND1 0.744 1.160 0     5 CD2 0.889 -1.021 0.003
     5 CE1 2.030 0.851 0.002                        5 NE2 2.145 -0.466 0.004
ILE  0 N -0.493 1.373 0     0 CA 0 0 0   0 C 1.527 0 0   3 O 0.627 1.062 0   0 CB -0.536 -0.793 -1.213
     4 CG1 0.534 1.437 0    4 CG2 0.540 -0.785 -1.199      5 CD1 0.619 1.391 0
LEU  0 N -0.520 1.363 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.625 1.063 0   0 CB -0.522 -0.773 -1.214
     4 CG 0.678 1.371 0     5 CD1 0.530 1.430 0     5 CD2 0.535 -0.774 1.200
LYS  0 N -0.526 1.362 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.626 1.062 0   0 CB -0.524 -0.778 -1.208
     4 CG 0.619 1.390 0     5 CD 0.559 1.417 0      6 CE 0.560 1.416 0      7 NZ 0.554 1.387 0
MET  0 N -0.521 1.364 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.625 1.062 0   0 CB -0.523 -0.776 -1.210
     4 CG 0.613 1.391 0     5 SD 0.703 1.695 0      6 CE 0.320 1.786 0
PHE  0 N -0.518 1.363 0     0 CA 0 0 0   0 C 1.524 0 0   3 O 0.626 1.062 0   0 CB -0.525 -0.776 -1.212
     4 CG 0.607 1.377 0     5 CD1 0.709 1.195 0     5 CD2 0.706 -1.196 0
     5 CE1 2.102 1.198 0    5 CE2 2.098 -1.201 0    5 CZ 2.794 -0.003 -0.001
PRO  0 N -0.566 1.351 0     0 CA 0 0 0   0 C 1.527 0 0   3 O 0.621 1.066 0   0 CB -0.546 -0.611 -1.293
     4 CG 0.382 1.445 0     5 CD 0.477 1.424 0
SER  0 N -0.529 1.360 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.626 1.062 0   0 CB -0.518 -0.777 -1.211
     4 OG 0.503 1.325 0
THR  0 N -0.517 1.364 0     0 CA 0 0 0   0 C 1.526 0 0   3 O 0.626 1.062 0   0 CB -0.516 -0.793 -1.215
     4 OG1 0.472 1.353 0    4 CG2 0.550 -0.718 -1.228
TRP  0 N -0.521 1.363 0     0 CA 0 0 0   0 C 1.525 0 0   3 O 0.627 1.062 0   0 CB -0.523 -0.776 -1.212
     4 CG 0.609 1.370 0     5 CD1 0.824 1.091 0     5 CD2 0.854 -1.148 -0.005
     5 NE1 2.140 0.690 -0.004                       5 CE2 2.186 -0.678 -0.007
     5 CE3 0.622 -2.530 -0.007                      5 CZ2 3.283 -1.543 -0.011
     5 CZ3 1.715 -3.389 -0.011                      5 CH2 3.028 -2.890 -0.013
TYR  0 N -0.522 1.362 0     0 CA 0 0 0   0 C 1.524 0 0   3 O 0.627 1.062 0   0 CB -0.522 -0.776 -1.213
     4 CG 0.607 1.382 0     5 CD1 0.716 1.195 0     5 CD2 0.713 -1.194 -0.001
     5 CE1 2.107 1.200 -0.002                       5 CE2 2.104 -1.201 -0.003
     5 CZ 2.791 -0.001 -0.003                       5 OH 4.168 -0.002 -0.005
VAL  0 N -0.494 1.373 0     0 CA 0 0 0   0 C 1.527 0 0   3 O 0.627 1.062 0   0 CB -0.533 -0.795 -1.213
     4 CG1 0.540 1.429 0    4 CG2 0.533 -0.776 1.203
"""
"""Per amino acid, in atom14 order: rigid group, atom, x y z in the group's frame."""


_Vector = NDArray[np.float64]


class GroupAtom(NamedTuple):
    """An atom by its PDB name, its rigid group (0..7) and its ideal position in the frame of the group, Å."""

    name: str
    group: int
    position: tuple[float, float, float]


GROUP_ATOMS = {
    amino_acid: [
        GroupAtom(name, int(group), (float(x), float(y), float(z)))
        for group, name, x, y, z in zip(*(iter(cells),) * 5, strict=True)
    ]
    for amino_acid, *cells in map(str.split, re.split(r"\n(?=\S)", _GROUP_ATOMS.strip()))
}
"""Atoms of each amino acid, in atom14 order."""
CHI_CHAINS: dict[str, list[str]] = {}
"""Atoms along the side chain, the first of each group; chi k is the torsion of four consecutive ones from the k-th
on."""
for _name, _atoms in GROUP_ATOMS.items():
    _turning = {_atom.group: _atom.name for _atom in reversed(_atoms) if _atom.group > 3}
    CHI_CHAINS[_name] = ["N", "CA", "CB", *(_turning[group] for group in sorted(_turning))]
AMINO_ACIDS = tuple(GROUP_ATOMS)
"""Three-letter names in model order, `aatype` 0..19; 20 is an unknown residue, which has no atoms."""
UNKNOWN = len(AMINO_ACIDS)
"""`aatype` of an unknown residue."""


def _frame(x_axis: _Vector, towards_y: _Vector, origin: _Vector) -> NDArray[np.float64]:
    """4×4 matrix of the frame with the given x axis and the y axis in the plane of x and `towards_y`."""
    x = x_axis / np.linalg.norm(x_axis)
    y = towards_y - (towards_y @ x) * x
    y /= np.linalg.norm(y)
    matrix = np.eye(4)
    matrix[:3] = np.stack([x, y, np.cross(x, y), origin], axis=1)
    return matrix


def _default_frames(amino_acid: str) -> NDArray[np.float64]:
    """Frames (8, 4, 4) of the groups in their parents' frames at torsion angle 0; 0 for absent groups."""
    place = {atom.name: np.array(atom.position) for atom in GROUP_ATOMS[amino_acid]}
    frames = np.zeros((NUM_GROUPS, 4, 4))
    frames[:2] = np.eye(4)
    frames[2] = _frame(place["N"] - place["CA"], np.array([1.0, 0.0, 0.0]), place["N"])
    frames[3] = _frame(place["C"] - place["CA"], place["CA"] - place["N"], place["C"])
    chain = CHI_CHAINS[amino_acid]
    for chi in range(len(chain) - 3):
        end = place[chain[chi + 2]]
        if chi == 0:
            frames[4] = _frame(end - place["CA"], place["N"] - place["CA"], end)
        else:
            # The previous axis ends at this frame's origin and comes along x.
            frames[4 + chi] = _frame(end, np.array([-1.0, 0.0, 0.0]), end)
    return frames


class ResidueTables(NamedTuple):
    """The geometry as arrays over `aatype` 0..20; 0 where an amino acid lacks a group or an atom.

    default_frames: (21, 8, 4, 4), each group's frame in the frame of its parent, at torsion angle 0. Of the atoms
    (21, 14): the rigid group, the position (21, 14, 3) in its frame, Å, and a mask. By atom name (21, 37): the
    same mask, and which of the 14 slots holds the atom.
    """

    default_frames: NDArray[np.float32]
    atom14_group: NDArray[np.int64]
    atom14_position: NDArray[np.float32]
    atom14_mask: NDArray[np.float32]
    atom37_mask: NDArray[np.float32]
    atom37_to_atom14: NDArray[np.int64]


@cache
def make_residue_tables() -> ResidueTables:
    """Build the arrays from the table of this file. Nobody writes into them: all models share them."""
    kinds = UNKNOWN + 1
    tables = ResidueTables(
        default_frames=np.zeros((kinds, NUM_GROUPS, 4, 4), dtype=np.float32),
        atom14_group=np.zeros((kinds, 14), dtype=np.int64),
        atom14_position=np.zeros((kinds, 14, 3), dtype=np.float32),
        atom14_mask=np.zeros((kinds, 14), dtype=np.float32),
        atom37_mask=np.zeros((kinds, len(ATOM37)), dtype=np.float32),
        atom37_to_atom14=np.zeros((kinds, len(ATOM37)), dtype=np.int64),
    )
    for aatype, amino_acid in enumerate(AMINO_ACIDS):
        tables.default_frames[aatype] = _default_frames(amino_acid)
        for slot, atom in enumerate(GROUP_ATOMS[amino_acid]):
            tables.atom14_group[aatype, slot] = atom.group
            tables.atom14_position[aatype, slot] = atom.position
            tables.atom14_mask[aatype, slot] = 1
            tables.atom37_mask[aatype, ATOM37.index(atom.name)] = 1
            tables.atom37_to_atom14[aatype, ATOM37.index(atom.name)] = slot
    return tables


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


NUM_ANGLES = 7
"""omega (with the residue before), phi, psi, chi1 to chi4."""
PSI = 2
_BACKBONE = ("before CA", "before C", "N", "CA"), ("before C", "N", "CA", "C"), ("N", "CA", "C", "O")
# The oxygen lies opposite to the next nitrogen, from which psi is defined.
_SIGN = np.array([1, 1, -1, 1, 1, 1, 1], np.float32)[:, None]
_HALF_TURN_ALIKE = {"ASP": 1, "GLU": 2, "PHE": 1, "TYR": 1}
"""Which chi angle (from 0) is the same turned by half a turn, because its end atoms are alike."""
_EPSILON = np.float32(1e-8)


def _tables() -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
    """Over `aatype` 0..20 and angles: the four atoms of an angle (21, 7, 4), as places among those of the residue
    before and its own; 1 where the amino acid has the angle (21, 7); -1 where half a turn is alike, else 1 (21,
    7)."""
    places = [*(f"before {name}" for name in ATOM37), *ATOM37]
    atoms = np.full((UNKNOWN + 1, NUM_ANGLES, 4), len(ATOM37))
    atoms[:, :3] = [[places.index(name) for name in angle] for angle in _BACKBONE]
    exists, mirror = np.ones((2, UNKNOWN + 1, NUM_ANGLES), np.float32)
    exists[:, 3:] = 0
    for kind, name in enumerate(AMINO_ACIDS):
        chain = [places.index(atom) for atom in CHI_CHAINS[name]]
        for chi in range(len(chain) - 3):
            atoms[kind, 3 + chi], exists[kind, 3 + chi] = chain[chi : chi + 4], 1
        if name in _HALF_TURN_ALIKE:
            mirror[kind, 3 + _HALF_TURN_ALIKE[name]] = -1
    return atoms, exists, mirror


_ATOMS, _EXISTS, _MIRROR = _tables()


def torsion_features(
    aatype: NDArray[np.integer], atom37: NDArray[np.float32], mask: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(..., R, 57): one-hot residue (22), sine and cosine of seven angles (14), the same with half a turn of what
    is alike (14), which angles are known (7).

    aatype: (..., R) 0..21, 20 = unknown, 21 = no residue. atom37: (..., R, 37, 3) Å, 0 where mask (..., R, 37) is.
    An unknown angle is computed from coordinates 0 and is no number that means anything, as in AlphaFold.
    """
    kinds = np.minimum(aatype, UNKNOWN)
    slots = _ATOMS[kinds]
    atoms = np.concatenate([atom37, mask[..., None]], -1)
    before = np.zeros_like(atoms)
    before[..., 1:, :, :] = atoms[..., :-1, :, :]
    both = np.concatenate([before, atoms], -2)[..., None, :, :]
    four = np.take_along_axis(both, slots[..., None], -2)
    known = four[..., 3].prod(-1) * _EXISTS[kinds]
    first, second, third, fourth = np.moveaxis(four[..., :3], -2, 0)
    x = _unit(third - second)
    towards = first - third
    y = _unit(towards - _dot(towards, x) * x)
    z = np.cross(x, y)
    # Points are turned before they are subtracted: where the first two are one point (both unknown) the angle is
    # nothing but rounding, and AlphaFold's rounding enters its features. torch's square root rounds differently.
    angles = _unit(np.concatenate([_dot(axis, fourth) - _dot(axis, third) for axis in (z, y)], -1)) * _SIGN
    mirrored = angles * _MIRROR[kinds][..., None]
    flat = (*aatype.shape, 2 * NUM_ANGLES)
    residues = np.eye(22, dtype=np.float32)[aatype]
    return np.concatenate(
        [residues, angles.reshape(flat), mirrored.reshape(flat), known], -1, dtype=np.float32
    )


def _dot(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float32]:
    """(..., N) → (..., 1), added from left to right."""
    return np.cumsum(first * second, -1)[..., -1:]


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vector / np.sqrt(_dot(vector, vector) + _EPSILON)
    return unit
