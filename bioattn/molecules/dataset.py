"""The dataset of molecules with measured values that `prepare molecules` makes: a sealed HDF5 file.

It holds graphs and fingerprints, so that training needs neither the sources nor RDKit. The schema is
written down in `docs/formats/molecule-dataset.md`.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Task
from bioattn.errors import BioattnError, FormatError
from bioattn.io.dataset_file import DatasetKind, GrowingArray, put_array, put_metadata, put_text
from bioattn.molecules.graphs import ATOM_FEATURES, BOND_CODES, FINGERPRINT_BITS, Molecule, Molecules
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN

MOLECULE_DATASET = DatasetKind(
    name="dataset of molecules",
    format="bioattn-molecule-dataset",
    version=1,
    command="bioattn prepare molecules",
)


@dataclass(frozen=True, slots=True, eq=False)
class MoleculeDataset:
    """An opened dataset. N molecules, T tasks."""

    path: Path
    molecules: Molecules
    split: NDArray[np.uint8]
    """TRAIN, VALIDATION or TEST of each molecule."""
    task: Task
    tasks: list[str]
    """What was measured."""
    targets_NT: NDArray[np.float32]
    """NaN = not measured."""
    metadata: dict[str, Any]
    """What made the dataset; JSON types only."""

    def side(self, split: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.split == split)


class MoleculeWriter:
    """Writes a dataset, its graphs and fingerprints as they come; the same molecules give the same bytes."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._bits = GrowingArray(file, "molecules/fingerprint", "u1", FINGERPRINT_BITS // 8)
        self._atoms = GrowingArray(file, "atoms/features", "u1", len(ATOM_FEATURES))
        self._bonds = GrowingArray(file, "bonds/atoms_and_code", "<u2", 3)
        self._offsets = {"atoms": array("q", [0]), "bonds": array("q", [0])}

    def add(self, molecule: Molecule) -> None:
        self._bits.append(np.frombuffer(molecule.fingerprint, np.uint8))
        self._atoms.append(molecule.atoms)
        self._bonds.append(molecule.bonds)
        for name, rows in (("atoms", molecule.atoms), ("bonds", molecule.bonds)):
            self._offsets[name].append(self._offsets[name][-1] + len(rows))

    def end_graphs(self) -> h5py.Dataset:
        """Store what is left of graphs and fingerprints. Returns the fingerprints (molecules, bits / 8)."""
        for name, offset in self._offsets.items():
            put_array(self._file, f"{name}/offset", np.array(offset, "<i8"))
        self._atoms.end()
        self._bonds.end()
        return self._bits.end()

    def write_rest(
        self,
        ids: Sequence[str],
        smiles: Sequence[str],
        split: NDArray[np.uint8],
        task: Task,
        tasks: Sequence[str],
        targets_NT: NDArray[np.float32],
        metadata: dict[str, Any],
    ) -> None:
        """Write all else; see `MoleculeDataset`."""
        put_text(self._file, "molecules/id", ids)
        put_text(self._file, "molecules/smiles", smiles)
        put_array(self._file, "molecules/split", split)
        put_text(self._file, "tasks/name", tasks)
        put_array(self._file, "targets", targets_NT.astype("<f4", copy=False))
        put_metadata(self._file, metadata)
        MOLECULE_DATASET.write_attributes(self._file, task=str(task))


def open_molecule_dataset(path: Path) -> MoleculeDataset:
    """Read a dataset, its seal compared.

    Raises: FormatError naming what is wrong: not such a dataset, another version, truncated, edited, or values
    that cannot be.
    """
    with MOLECULE_DATASET.open(path) as arrays:
        molecules = Molecules(
            arrays.text("molecules/id"),
            arrays.text("molecules/smiles"),
            arrays.get("atoms/offset", "i8"),
            arrays.get("atoms/features", "u1"),
            arrays.get("bonds/offset", "i8"),
            arrays.get("bonds/atoms_and_code", "u2"),
            arrays.get("molecules/fingerprint", "u1"),
        )
        split, targets_NT = arrays.get("molecules/split", "u1"), arrays.get("targets", "f4")
        tasks, number = arrays.text("tasks/name"), len(molecules.ids)
        fits = (
            targets_NT.shape == (number, len(tasks))
            and len(split) == len(molecules.smiles) == number
            and (split <= TEST).all()
            and molecules.fingerprints.shape == (number, FINGERPRINT_BITS // 8)
            and molecules.atoms_NF.shape == (molecules.atom_offset[-1], len(ATOM_FEATURES))
            and (molecules.atoms_NF < list(ATOM_FEATURES.values())).all()
            and molecules.bonds_M3.shape == (molecules.bond_offset[-1], 3)
            and (molecules.bonds_M3[:, 2] < BOND_CODES).all()
            and len(molecules.atom_offset) == len(molecules.bond_offset) == number + 1
            and (molecules.sizes > 0).all()
            and (np.diff(molecules.bond_offset) >= 0).all()
            and (
                molecules.bonds_M3[:, :2].max(axis=1, initial=0)
                < np.repeat(molecules.sizes, np.diff(molecules.bond_offset))
            ).all()
        )
        if not fits:
            raise FormatError(f"{path}: the arrays of molecules do not fit together; make the dataset again")
        try:
            task = Task(str(arrays.file.attrs["task"]))
        except (KeyError, ValueError) as error:
            raise FormatError(f"{path}: {error}; make the file again") from error
        return MoleculeDataset(path, molecules, split, task, tasks, targets_NT, arrays.metadata())


def validate_molecule_dataset(path: Path) -> list[str]:
    """Check a dataset file. Returns the problems; empty when it is valid."""
    try:
        dataset = open_molecule_dataset(path)
    except BioattnError as error:
        return [str(error)]
    return [] if (dataset.split == TRAIN).any() else [f"{path}: no molecule is in the training split"]


def describe_molecule_dataset(path: Path) -> dict[str, Any]:
    """The main figures for `bioattn inspect`. Raises: FormatError when it is damaged."""
    dataset = open_molecule_dataset(path)
    return {
        "molecules": len(dataset.molecules.ids),
        "molecules_per_split": {name: len(dataset.side(side)) for side, name in enumerate(SPLIT_NAMES)},
        "largest": int(dataset.molecules.sizes.max()),
        "task": str(dataset.task),
        "tasks": len(dataset.tasks),
        "measured": round(float(np.isfinite(dataset.targets_NT).mean()), 6),
        "leakage": dataset.metadata.get("leakage"),
    }
