"""Molecules of a file or in memory, cleaned, and the rows of predictions of them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bioattn.inference.finite import finite_results
from bioattn.inference.inputs import HELD, sequences_in
from bioattn.models.molecule.folder import LoadedMoleculeModel
from bioattn.molecules.graphs import Collector, Molecules
from bioattn.molecules.preparation import Record, clean_molecules, read_molecules
from bioattn.system.progress import SILENT, Progress

BATCH = 64
"""Molecules that are predicted together."""


def records_in(
    inputs: Any, smiles_column: str | None = None, progress: Progress = SILENT
) -> Iterator[Record]:
    """Cleaned molecules of a table or SDF file, or of SMILES.

    inputs: a `Path`, else SMILES by name, in a list or a table; text is never a path.

    Raises: FormatError without a column of SMILES; BioattnError when no molecule can be used.
    """
    if isinstance(inputs, Path):
        return read_molecules(inputs, smiles_column, progress, unique=False)
    named = zip(*sequences_in(inputs, "molecule", smiles_column or "smiles"), strict=True)
    return clean_molecules(((name, smiles, {}) for name, smiles in named), HELD, progress, unique=False)


def collected(records: Iterator[Record]) -> tuple[Molecules, list[str], str]:
    """The molecules as graphs, which were left out and why, and a digest of the names and SMILES."""
    collector, dropped, digest = Collector(), list[str](), hashlib.sha256()
    for name, molecule, reason, _ in records:
        if molecule is None:
            dropped.append(f"{name} {reason}")
        else:
            collector.add(name, molecule)
            digest.update(f"{name}\0{molecule.smiles}\0".encode())
    return collector.molecules(), dropped, digest.hexdigest()


def predicted_rows(
    loaded: LoadedMoleculeModel, records: Iterator[Record]
) -> Iterator[tuple[str, str, list[float] | None, str]]:
    """Name, cleaned SMILES, predictions (None without any) and a note of each record."""
    for first, batch in enumerate(_batches(records)):
        collector = Collector()
        for record in batch:
            if record.molecule is not None:
                collector.add(record.name, record.molecule)
        molecules = collector.molecules()
        number = len(molecules.ids)
        with finite_results(f"molecules {first * BATCH + 1:,} and following", loaded.path):
            answers = loaded.answers(molecules, range(number)).tolist() if number else []
        answers.reverse()
        for name, molecule, reason, _ in batch:
            if molecule is None:
                yield name, "", None, reason
            else:
                yield name, molecule.smiles, answers.pop(), "; ".join(molecule.notes)


def _batches(records: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if sum(each.molecule is not None for each in batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
