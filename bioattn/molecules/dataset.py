"""The dataset of molecules with measured values that `prepare molecules` makes, an HDF5 file.

It holds graphs and fingerprints, so that training needs neither the sources nor RDKit. The schema is
written down in `docs/formats/other-datasets.md`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, Task
from bioattn.errors import BioattnError, FormatError
from bioattn.io.dataset_file import DatasetKind, put_metadata
from bioattn.io.hdf5 import hdf5_file, put_array
from bioattn.molecules.graphs import ATOM_FEATURES, BOND_CODES, FINGERPRINT_BITS, Molecules
from bioattn.text import quoted

MOLECULE_DATASET = DatasetKind(
    name="dataset of molecules",
    format="bioattn-molecule-dataset",
    version=1,
    command="bioattn prepare molecules",
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        return f"<{len(self.split):,} molecules, {quoted(self.tasks)}, {self.task}>"

    def side(self, split: int) -> NDArray[np.int64]:
        return np.flatnonzero(self.split == split)


def write_molecule_dataset(path: Path, dataset: MoleculeDataset) -> None:
    """Write a dataset; the same molecules give the same bytes. Raises: BioattnError when it cannot be written."""
    molecules = dataset.molecules
    with hdf5_file(path) as file:
        put_array(file, "molecules/id", molecules.ids)
        put_array(file, "molecules/smiles", molecules.smiles)
        put_array(file, "molecules/split", dataset.split)
        put_array(file, "molecules/fingerprint", molecules.fingerprints)
        put_array(file, "atoms/offset", molecules.atom_offset.astype("<i8"))
        put_array(file, "atoms/features", molecules.atoms_NF)
        put_array(file, "bonds/offset", molecules.bond_offset.astype("<i8"))
        put_array(file, "bonds/atoms_and_code", molecules.bonds_M3.astype("<u2"))
        put_array(file, "tasks/name", dataset.tasks)
        put_array(file, "targets", dataset.targets_NT.astype("<f4"))
        put_metadata(file, dataset.metadata)
        MOLECULE_DATASET.write_attributes(file, task=str(dataset.task))


def open_molecule_dataset(path: Path) -> MoleculeDataset:
    """Read a dataset.

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
            len(split) == len(molecules.sizes) == len(molecules.bond_offset) - 1 == number
            and targets_NT.shape == (number, len(tasks))
            and molecules.fingerprints.shape == (number, FINGERPRINT_BITS // 8)
            and molecules.atoms_NF.shape == (molecules.atom_offset[-1], len(ATOM_FEATURES))
            and molecules.bonds_M3.shape == (molecules.bond_offset[-1], 3)
            and (molecules.atoms_NF < list(ATOM_FEATURES.values())).all()
            and (molecules.bonds_M3[:, 2] < BOND_CODES).all()
            and (split <= TEST).all()
        )
        if not fits:
            raise FormatError(f"{path}: the arrays of molecules do not fit together; make the dataset again")
        try:
            task = Task(arrays.attributes["task"])
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
