"""Atoms from frames and torsion angles: real proteins are rebuilt from what Biopython measures on them."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from Bio.PDB.PDBParser import PDBParser
from Bio.PDB.vectors import calc_dihedral

from bioattn.models.evoformer.structure_module import AtomBuilder, Rigid, pseudo_beta
from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, GROUP_ATOMS, UNKNOWN

CHI_ATOMS = {
    "ARG": ["N CA CB CG", "CA CB CG CD", "CB CG CD NE", "CG CD NE CZ"],
    "ASN": ["N CA CB CG", "CA CB CG OD1"],
    "ASP": ["N CA CB CG", "CA CB CG OD1"],
    "CYS": ["N CA CB SG"],
    "GLN": ["N CA CB CG", "CA CB CG CD", "CB CG CD OE1"],
    "GLU": ["N CA CB CG", "CA CB CG CD", "CB CG CD OE1"],
    "HIS": ["N CA CB CG", "CA CB CG ND1"],
    "ILE": ["N CA CB CG1", "CA CB CG1 CD1"],
    "LEU": ["N CA CB CG", "CA CB CG CD1"],
    "LYS": ["N CA CB CG", "CA CB CG CD", "CB CG CD CE", "CG CD CE NZ"],
    "MET": ["N CA CB CG", "CA CB CG SD", "CB CG SD CE"],
    "PHE": ["N CA CB CG", "CA CB CG CD1"],
    "PRO": ["N CA CB CG", "CA CB CG CD"],
    "SER": ["N CA CB OG"],
    "THR": ["N CA CB OG1"],
    "TRP": ["N CA CB CG", "CA CB CG CD1"],
    "TYR": ["N CA CB CG", "CA CB CG CD1"],
    "VAL": ["N CA CB CG1"],
}
"""The IUPAC definition of each chi angle."""


def torsion(residue, names, after=None):
    """Radians; `+N` is the nitrogen of the residue after."""
    atoms = [after["N"] if name == "+N" else residue[name] for name in names.split()]
    return calc_dihedral(*(atom.get_vector() for atom in atoms))


def measure(residue, after):
    """(7, 2) sine and cosine of omega and phi (which move no atom: any), psi, chi1 to chi4 (absent: any)."""
    angles = [0.3, -0.4, torsion(residue, "N CA C +N", after)]
    angles += [torsion(residue, chi) for chi in CHI_ATOMS.get(residue.get_resname(), [])]
    angles += [0.5] * (7 - len(angles))
    return [[np.sin(angle), np.cos(angle)] for angle in angles]


def backbone(residue):
    """Rotation and translation of the frame: CA at the origin, C on x, N in the xy plane."""
    ca, c, n = (residue[name].coord.astype(float) for name in ("CA", "C", "N"))
    x = (c - ca) / np.linalg.norm(c - ca)
    y = (n - ca) - ((n - ca) @ x) * x
    y /= np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1), ca


def complete_residues(path):
    """(residue, the one after it) for all whose heavy atoms are all there."""
    (chain, *_) = PDBParser(QUIET=True).get_structure("x", str(path))[0]
    residues = [residue for residue in chain if residue.id[0] == " "]
    for residue, after in pairwise(residues):
        names = {atom.name for atom in GROUP_ATOMS.get(residue.get_resname(), [])}
        bonded = "C" in residue and "N" in after and residue["C"] - after["N"] < 1.6
        if names and bonded and all(name in residue for name in names):
            yield residue, after


@pytest.mark.shared
def test_real_proteins_are_rebuilt_from_their_frames_and_torsions(shared):
    """Bonds and angles vary in crystals, which adds up along a chain; a wrong axis moves atoms far more."""
    folder = shared / "data" / "msa_structure" / "structure"
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".pdb", ".ent")][:12]
    pairs = [pair for path in files for pair in complete_residues(path)]
    aatype = torch.tensor([AMINO_ACIDS.index(residue.get_resname()) for residue, _ in pairs])
    assert set(aatype.tolist()) == set(range(20))
    rotations, translations = zip(*(backbone(residue) for residue, _ in pairs), strict=True)
    frames = Rigid(torch.tensor(np.stack(rotations)).float(), torch.tensor(np.stack(translations)).float())
    angles = torch.tensor(np.array([measure(*pair) for pair in pairs])).float()
    builder = AtomBuilder()
    built = builder.atom37(builder.atom14(builder.group_frames(frames, angles, aatype), aatype), aatype)
    errors = {}
    for place, (residue, _) in enumerate(pairs):
        for atom in GROUP_ATOMS[residue.get_resname()]:
            error = np.linalg.norm(built[place, ATOM37.index(atom.name)].numpy() - residue[atom.name].coord)
            errors.setdefault((residue.get_resname(), atom.name), []).append(error)
    assert len(errors) == sum(map(len, GROUP_ATOMS.values())) == 167
    worst = max(errors, key=lambda name: np.median(errors[name]))
    assert np.median(errors[worst]) < 0.6, worst
    assert np.median(np.concatenate(list(errors.values()))) < 0.06


def test_slots_by_name():
    builder = AtomBuilder()
    aatype = torch.tensor([*range(20), UNKNOWN])
    slots = torch.arange(1.0, 15.0).expand(21, 14)[..., None] * torch.tensor([1.0, 10.0, 100.0])
    atom37 = builder.atom37(slots, aatype)
    for kind, amino_acid in enumerate(AMINO_ACIDS):
        names = [atom.name for atom in GROUP_ATOMS[amino_acid]]
        for slot, name in enumerate(ATOM37):
            expected = names.index(name) + 1 if name in names else 0
            assert atom37[kind, slot].tolist() == [expected, 10 * expected, 100 * expected]
            assert builder.atom37_mask[kind, slot] == (name in names)
    assert not atom37[20].any()
    beta = pseudo_beta(atom37, aatype)[:, 0].tolist()
    assert beta == [2 if name == "GLY" else 5 for name in AMINO_ACIDS] + [0]


def test_geometry_is_not_saved_with_a_model():
    assert AtomBuilder().state_dict() == {}
