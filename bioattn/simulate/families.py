"""Simulated protein families (a fold, and an alignment whose couplings are its contacts), written with the truth.

The files are those of `docs/formats/simulated-families.md`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from Bio.Data.PDBData import protein_letters_1to3
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import write_a3m
from bioattn.formats.structure_output import CHAIN, StructureResidue, write_pdb
from bioattn.io.files import final_name, partial_path, text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.simulate.description import FAMILIES_FORMAT, INDEX
from bioattn.simulate.potts import (
    LETTERS,
    FamilySettings,
    PottsModel,
    generate_fold,
    potts_model,
    sample_family,
)
from bioattn.structures.chain import read_chain
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted


@dataclass(frozen=True, slots=True)
class SimulatedFamily:
    """One family and its truth."""

    states: NDArray[np.uint8]
    """(S, R): 0..19 amino acids in the order of `potts.LETTERS`, 20 gap; the first row has no gap."""
    positions: NDArray[np.float64]
    """(R, 3) C-beta positions in Å."""
    structure: str
    """One letter per column: H, E or C for generated folds, `-` where the fold was given."""
    settings: FamilySettings
    """What it was drawn with."""
    model: PottsModel
    """What it was drawn from."""


DEPTHS = (300, 1500)
"""Sequences of a family, at least and at most; as likely to lie in one octave as in another."""


def random_settings(
    random: np.random.Generator, *, depths: tuple[int, int] = DEPTHS, strength: float | None = None
) -> FamilySettings:
    """Draw settings that vary as real families do: weak to strong couplings, conserved or not, related or not.

    strength: the scale of the couplings, where it is not to be drawn.
    """
    low, high = np.log(depths[0]), np.log(depths[1])
    return FamilySettings(
        depth=max(1, int(np.exp(random.uniform(low, high)))),
        strength=float(random.uniform(0.45, 1.05)) if strength is None else strength,
        field=float(random.uniform(0.5, 1.1)),
        gaps=float(random.uniform(0.01, 0.1)),
        tips=float(random.uniform(0.4, 0.8)),
    )


def simulate_family(
    random: np.random.Generator,
    *,
    positions: NDArray[np.floating] | None = None,
    settings: FamilySettings | None = None,
    lengths: tuple[int, int] = (50, 110),
) -> SimulatedFamily:
    """Simulate a family on the fold `positions` (R, 3), or on a generated one of `lengths` residues."""
    structure = "-" * len(positions) if positions is not None else ""
    if positions is None:
        fold = generate_fold(
            random, min_length=lengths[0], max_length=int(random.integers(lengths[0], lengths[1] + 1))
        )
        positions, structure = fold.positions, fold.structure
    chosen = settings or random_settings(random)
    model = potts_model(positions, chosen, random)
    states = sample_family(model, chosen, random)
    return SimulatedFamily(states, np.asarray(positions, np.float64), structure, chosen, model)


PAIRS = "PAIRS.tsv"
_FOLDERS = {"msa": "a3m", "structure": "pdb", "contacts": "tsv"}
"""Folders of families' files, and how the names in them end."""
_TITLE = "SIMULATED BY BIOATTN: A FOLD WITH CA AND CB, NO MEASURED STRUCTURE"
_CA_TO_CB = 1.53
"""Å."""
_ASCII = np.frombuffer((LETTERS + "-").encode(), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySimulation:
    """Settings of a simulation of families."""

    families: int
    folds: Sequence[tuple[str, NDArray[np.float32]]] = ()
    """Names and CB positions (R, 3) of given folds, taken in turn; empty: every fold is generated."""
    depths: tuple[int, int] = DEPTHS
    """Sequences of a family, at least and at most."""
    lengths: tuple[int, int] = (50, 110)
    """Residues of a generated fold."""
    strength: float | None = None
    """Scale of the couplings; None: drawn for each family."""
    seed: int = 0


def read_folds(paths: Sequence[Path]) -> list[tuple[str, NDArray[np.float32]]]:
    """Read name and CB positions of the chain in each file; `FILE:CHAIN` names a chain where there are several.

    Raises: BioattnError naming the file that cannot be used.
    """
    folds = []
    for path in paths:
        chain = None
        if not path.exists() and ":" in path.name:
            name, _, chain = path.name.rpartition(":")
            path = path.with_name(name)
        structure = read_chain(path, chain, chosen_by=f"as {path}:CHAIN")
        if len(structure.letters) < 20:
            raise BioattnError(f"{path}: has {counted(len(structure), 'residue')}; a fold needs at least 20")
        folds.append((path.name.split(".")[0], structure.cb))
    return folds


def write_families(
    folder: Path, simulation: FamilySimulation, *, force: bool = False, progress: Progress = SILENT
) -> int:
    """Simulate and write families one by one; the folder appears whole or not at all. Returns their number.

    Family k is a function of the seed and k: asking for more of them leaves the first ones as they were.

    Raises: SettingsError and BioattnError as `check_output_folder`, when the folder holds files that are not a
    simulation's, or when the disk is full.
    """
    check_output_folder(folder, force=force)
    with atomic_folder(folder, own_names(folder, _FOLDERS)) as partial:
        return _write_all(partial, simulation, progress)


def own_names(folder: Path, folders: Mapping[str, str]) -> set[str]:
    """Names of the files of a simulation, for as many samples as are in the folder.

    folders: by name how the names of the files in them end.
    """
    sample = re.compile("|".join(rf"{name}/simulated\d{{6,}}\.{end}" for name, end in folders.items()))
    alike = (folder, partial_path(folder))
    written = {
        name
        for each in alike
        for path in each.rglob("*")
        if sample.fullmatch(name := final_name(path.relative_to(each).as_posix()))
    }
    first = {f"{name}/simulated000000.{end}" for name, end in folders.items()}
    return {PAIRS, INDEX, f"{PAIRS}.run.json", *first, *written}


def _write_all(folder: Path, simulation: FamilySimulation, progress: Progress) -> int:
    for name in _FOLDERS:
        (folder / name).mkdir()
    rows: list[str] = ["id\tmsa\tstructure\tchain\tgroup\n"]
    settings = []
    for number in watched(progress, "simulating families", range(simulation.families)):
        random = np.random.default_rng([simulation.seed, number])
        name = group = f"simulated{number:06d}"
        positions = None
        if simulation.folds:
            group, positions = simulation.folds[number % len(simulation.folds)]
        chosen = random_settings(random, depths=simulation.depths, strength=simulation.strength)
        family = simulate_family(random, positions=positions, settings=chosen, lengths=simulation.lengths)
        _write_family(folder, name, family)
        rows.append(f"{name}\tmsa/{name}.a3m\tstructure/{name}.pdb\t{CHAIN}\t{group}\n")
        settings.append({"id": name, "group": group, "structure": family.structure, **asdict(chosen)})
    with text_output(folder / PAIRS) as file:
        file.writelines(rows)
    head = {"format": FAMILIES_FORMAT, "format_version": 1, "seed": simulation.seed}
    write_json(folder / INDEX, {**head, "families": settings})
    return simulation.families


def _write_family(folder: Path, name: str, family: SimulatedFamily) -> None:
    names = [f"{name}_{row}" for row in range(len(family.states))]
    alignment = Alignment.plain(names, _ASCII[family.states])
    write_a3m(alignment, folder / "msa" / f"{name}.a3m")
    write_pdb(folder / "structure" / f"{name}.pdb", _residues(alignment.row(0), family.positions), _TITLE)
    distance = np.linalg.norm(family.positions[:, None] - family.positions[None], axis=-1)
    with text_output(folder / "contacts" / f"{name}.tsv") as file:
        file.write("column_i\tcolumn_j\tdistance\tcoupling_norm\n")
        for (i, j), coupling in zip(family.model.pairs, family.model.couplings, strict=True):
            file.write(f"{i + 1}\t{j + 1}\t{distance[i, j]:.3f}\t{np.linalg.norm(coupling):.4f}\n")


def _residues(letters: str, cb: NDArray[np.float64]) -> list[StructureResidue]:
    """Residues 1..R. CA stands one bond from CB towards the middle of the chain nearby."""
    middle = np.stack([cb[max(0, i - 2) : i + 3].mean(axis=0) for i in range(len(cb))])
    inward = middle - cb
    inward /= np.maximum(np.linalg.norm(inward, axis=1, keepdims=True), 1e-6)
    ca = cb + _CA_TO_CB * inward
    residues = []
    for number, (letter, first, second) in enumerate(zip(letters, ca.tolist(), cb.tolist(), strict=True)):
        # Of glycine CA counts as CB.
        atoms = {"CA": second} if letter == "G" else {"CA": first, "CB": second}
        name = protein_letters_1to3[letter].upper()
        residues.append(StructureResidue(name=name, number=number + 1, atoms=atoms, confidence=0.0))
    return residues
