"""Simulated molecules: chains of pieces in which a planted substructure acts, and another one does not."""

from dataclasses import asdict

import numpy as np

from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.models.molecule.running import MoleculeSimulation
from bioattn.molecules.chemistry import read_molecule, require_rdkit

FORMAT = "bioattn-simulated-molecules"
FILES = ("molecules.tsv", "truth.tsv", "simulation.json")
PIECES = (
    *("C", "CC", "C(C)", "O", "N", "C(=O)", "C(F)"),
    *("C(O)", "S", "C(=O)O", "c1ccc(cc1)", "C1CCC(CC1)", "C(C#N)"),
)
"""SMILES that can stand in a chain."""
PLANTED, DECOY = "C(=O)NS(=O)(=O)", "C(=O)NC(=O)"
"""The acyl sulfonamide acts; the imide, which shares a half with it, does not."""
PLANTED_SMARTS = "C(=O)[NH]S(=O)(=O)"


def write_simulation(settings: MoleculeSimulation) -> None:
    """Write the folder. Each molecule is there once; half hold the planted substructure, half the decoy."""
    chem = require_rdkit()
    check_output_folder(settings.output, force=settings.force)
    generator = np.random.default_rng(settings.seed)
    pattern = chem.MolFromSmarts(PLANTED_SMARTS)
    seen: set[str] = set()
    with atomic_folder(settings.output, FILES) as folder:
        with text_output(folder / FILES[0]) as table, text_output(folder / FILES[1]) as truth:
            table.write("id\tsmiles\tactivity\n")
            truth.write("id\tatoms\n")
            while len(seen) < settings.molecules:
                number = int(generator.integers(2, settings.pieces + 1))
                pieces = generator.choice(PIECES, number).tolist()
                for motif in (PLANTED, DECOY):
                    if generator.random() < 0.5:
                        pieces.insert(int(generator.integers(1, len(pieces))), motif)
                molecule = read_molecule("C" + "".join(pieces) + "C")
                if molecule.smiles in seen:
                    continue
                seen.add(molecule.smiles)
                atoms = chem.MolFromSmiles(molecule.smiles).GetSubstructMatch(pattern)
                activity = settings.effect * bool(atoms) + settings.noise * generator.standard_normal()
                name = f"molecule{len(seen)}"
                table.write(f"{name}\t{molecule.smiles}\t{activity:.4f}\n")
                truth.write(f"{name}\t{','.join(str(atom + 1) for atom in sorted(atoms))}\n")
        settled = {name: value for name, value in asdict(settings).items() if name not in ("output", "force")}
        write_json(folder / FILES[2], {"format": FORMAT, "format_version": 1, **settled})
