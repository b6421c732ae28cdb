"""Torsion angles of residues, as AlphaFold 2 gives those of templates to its network (supplement, 1.7.1).

Shapes: ... leading axes, R residues, 37 atoms by name (`ATOM37`).
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, CHI_CHAINS, UNKNOWN

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
        chain = [places.index(atom) for atom in CHI_CHAINS[name].split()]
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
