"""Circular substructures of molecules, counted: what two molecules share, as bits.

An identifier tells an atom with all that lies up to so many bonds away (Rogers & Hahn 2010, without their removal
of duplicates, and without chirality); the nth atom of a molecule with the same one has a bit of its own. So the
Tanimoto similarity of the bits is Σ min / Σ max of the counts, but for identifiers that fall on the same bit.

Shape suffixes: N atoms, M bonds, R radii, Q molecules, A atoms of the largest of them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.molecules.graphs import ATOM_FEATURES, Molecules

BITS = 8192
RADIUS = 1
"""Bonds that a substructure reaches from its atom."""
_FEATURES = list(ATOM_FEATURES).index("chirality")
"""Features before chirality tell atoms apart."""
_MIXED = np.uint64(0x9E3779B97F4A7C15)


def place_bits(
    molecules: Molecules, rows: Sequence[int] | NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bit of each atom at each radius, (Q, R, A), and the bit that its molecule loses without it.

    -1 in padding. The two differ where several atoms are alike: without any one of them the last of their bits is
    lost.
    """
    sizes = molecules.sizes[rows]
    own_QRA, lost_QRA = (np.full((len(sizes), RADIUS + 1, int(sizes.max())), -1) for _ in range(2))
    for number, row in enumerate(rows):
        for radius, identifiers in enumerate(_identifiers(*molecules.graph(int(row)))):
            _, kind, count = np.unique(identifiers, return_inverse=True, return_counts=True)
            order = np.argsort(kind, kind="stable")
            first = np.concatenate([[0], count.cumsum()[:-1]])
            nth = np.empty(len(kind), np.int64)
            nth[order] = np.arange(len(kind)) - first[kind[order]]
            for bits_QRA, occurrence in ((own_QRA, nth), (lost_QRA, count[kind] - 1)):
                mixed = _mix(identifiers + _MIXED * (occurrence + 1).astype(np.uint64))
                bits_QRA[number, radius, : len(kind)] = mixed % np.uint64(BITS)
    return own_QRA, lost_QRA


def packed_bits(molecules: Molecules, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bits of some molecules, (Q, BITS / 8)."""
    packed = np.zeros((len(rows), BITS // 8), np.uint8)
    for number, row in enumerate(rows):
        bits = np.zeros(BITS, np.uint8)
        bits[place_bits(molecules, [int(row)])[0].ravel()] = 1
        packed[number] = np.packbits(bits)
    return packed


def _identifiers(atoms_NF: NDArray[np.uint8], bonds_M3: NDArray[np.uint16]) -> list[NDArray[np.uint64]]:
    """One per atom for each radius from 0."""
    own_N = np.zeros(len(atoms_NF), np.uint64)
    for feature_N in atoms_NF[:, :_FEATURES].T:
        own_N = _mix(own_N + feature_N.astype(np.uint64))
    found = [own_N]
    first, second, code = bonds_M3.T.astype(np.int64)
    for _ in range(RADIUS):
        around_N = np.zeros(len(atoms_NF), np.uint64)
        for here, there in ((first, second), (second, first)):
            np.add.at(around_N, here, _mix(found[-1][there] + code.astype(np.uint64)))
        found.append(_mix(found[-1] * _MIXED + around_N))
    return found


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of a number on every bit of the result (SplitMix64, Steele et al. 2014)."""
    values = values + _MIXED
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
