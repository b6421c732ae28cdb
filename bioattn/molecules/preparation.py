"""From a table of SMILES or an SDF file to a dataset: cleaned, split and audited."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Task
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import has_comma, is_missing, is_number, open_table, parse_numbers
from bioattn.io.audit import write_audit
from bioattn.io.files import sha256_of
from bioattn.io.seal import stream_sealed
from bioattn.molecules.chemistry import MoleculeError, read_molecule, read_records, require_rdkit
from bioattn.molecules.dataset import MoleculeWriter
from bioattn.molecules.graphs import Molecule
from bioattn.molecules.similarity import tanimoto
from bioattn.promoters.dataset import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.promoters.splits import (
    SplitWords,
    parse_holdouts,
    read_split_table,
    split_by_group,
    split_by_table,
)
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, percentage

LOGGER = logging.getLogger("bioattn")

MOLECULES = SplitWords("molecule", "molecules", "random")
SIMILAR = 0.6
"""Tanimoto similarity from which two molecules count as near relatives."""
LEAKAGE_SAMPLE = 2000
"""Molecules of a held-out side that are compared with those of training, at most."""
LEAKAGE_BLOCK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparationSettings:
    """How molecules become a dataset."""

    smiles_column: str | None = None
    targets: tuple[str, ...] = ()
    """Columns to learn; empty = all that hold numbers, and all of `responses`."""
    responses: Path | None = None
    """More measured values, by the molecules' names."""
    by_scaffold: bool = True
    """Whether molecules of one Murcko scaffold, or of none, stay on one side; else each is drawn by itself."""
    holdouts: tuple[str, ...] = ()
    split_table: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        twice = next((name for place, name in enumerate(self.targets) if name in self.targets[:place]), None)
        if twice is not None:
            raise SettingsError(f"--target {twice} is given twice; name each column once")
        if self.split_table is not None and self.holdouts:
            raise SettingsError("--split-table gives the side of every molecule; leave --holdout out")


@dataclass(frozen=True, slots=True)
class PreparedMolecules:
    """What was made."""

    molecules: dict[str, int]
    """By side of the split."""
    tasks: int
    task: Task
    noted: int
    """Molecules that cleaning changed, or whose stereo centres are not all given."""
    dropped: list[str]
    """Names of records that were left out, with the reason."""
    leakage: list[dict[str, Any]]


class Record(NamedTuple):
    """What became of a record."""

    name: str
    molecule: Molecule | None
    """None where it was left out."""
    reason: str = ""
    """Why it was left out."""
    columns: Mapping[str, str] = MappingProxyType({})
    """Further cells of one that was kept."""


class Texts:
    """Many short texts in one piece of memory; a list of them takes several times as much."""

    def __init__(self) -> None:
        self._lines, self._number = bytearray(), 0

    def append(self, text: str) -> None:
        self._lines += text.replace("\n", " ").encode() + b"\n"
        self._number += 1

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[str]:
        return (line[:-1].decode() for line in BytesIO(self._lines))


def read_molecules(
    path: Path, smiles_column: str | None = None, progress: Progress = SILENT, *, unique: bool = True
) -> Iterator[Record]:
    """Read and clean the molecules of a table or an SDF file, one after another.

    unique: of records of one molecule keep the first. Of records of one name the first is always kept.

    Raises: FormatError without a column of SMILES; BioattnError when no molecule can be used.
    """
    require_rdkit()
    names, first_of = set[str](), dict[int, str]()
    first = ""
    progress.begin("molecules", None)
    for name, text, columns in read_records(path, smiles_column):
        progress.advance(1)
        try:
            if name in names:
                raise MoleculeError("the name occurs above already")
            names.add(name)
            molecule = read_molecule(text)
            # 64 bits in place of SMILES, which take a hundred bytes.
            same = first_of.setdefault(hash(molecule.smiles), name)
            if same != name and unique:
                raise MoleculeError(f"is the same molecule as {same}")
            yield Record(name, molecule, "", columns)
        except MoleculeError as error:
            first = first or f"; the first: {name} {error}"
            yield Record(name, None, str(error))
    progress.end()
    if not first_of:
        raise BioattnError(f"{path}: no molecule can be used{first}")


def prepare_molecules(
    path: Path, output: Path, settings: PreparationSettings, progress: Progress = SILENT
) -> PreparedMolecules:
    """Write the dataset `output` and, beside it, an audit of every record.

    Graphs and fingerprints go to the file as they come, so that memory hardly grows with the table.

    Raises: FormatError for a column that is missing or mixes numbers and words; BioattnError when no molecule can
    be used or no value was measured; SettingsError for holdouts that are no shares.
    """
    names, reasons, notes, scaffolds, smiles = audit = [Texts() for _ in range(5)]
    columns: dict[str, Texts] = {}
    kept = 0
    with stream_sealed(output) as file:
        writer = MoleculeWriter(file)
        for name, molecule, reason, cells in read_molecules(path, settings.smiles_column, progress):
            found = ("; ".join(molecule.notes), molecule.scaffold, molecule.smiles) if molecule else ("",) * 3
            for texts, text in zip(audit, (name, reason, *found), strict=True):
                texts.append(text)
            if molecule is not None:
                writer.add(molecule)
                for column, cell in cells.items():
                    _filled(columns.setdefault(column, Texts()), kept).append(cell)
                kept += 1
        is_kept = [not reason for reason in reasons]
        ids = list(compress(names, is_kept))
        table = {column: _filled(texts, kept) for column, texts in columns.items()}
        tasks, targets_NT = _targets(path, ids, table, settings)
        if settings.split_table is not None:
            split = split_by_table(ids, read_split_table(settings.split_table), MOLECULES)
        else:
            groups = np.arange(kept)
            if settings.by_scaffold:
                place = {
                    each: number for number, each in enumerate(sorted(set(compress(scaffolds, is_kept))))
                }
                groups = np.array([place[each] for each in compress(scaffolds, is_kept)])
            holdouts = parse_holdouts(settings.holdouts, with_treatments=False)
            split = split_by_group(
                groups, holdouts, settings.seed, "scaffold" if settings.by_scaffold else "random", MOLECULES
            )
        fingerprints = writer.end_graphs()
        leakage = [
            _leakage(fingerprints, split, here) for here in (VALIDATION, TEST) if (split == here).any()
        ]
        files = [path, *(each for each in (settings.responses, settings.split_table) if each is not None)]
        metadata = {
            "files": [{"name": each.name, "sha256": sha256_of(each)} for each in files],
            "leakage": leakage,
            "settings": {
                name: list(value) if isinstance(value, tuple) else getattr(value, "name", str(value))
                for name, value in asdict(settings).items()
                if value is not None and not isinstance(value, int)
            }
            | {"seed": settings.seed},
        }
        binary = bool(np.isin(targets_NT[np.isfinite(targets_NT)], (0, 1)).all())
        task = Task.BINARY if binary else Task.REGRESSION
        writer.write_rest(ids, list(compress(smiles, is_kept)), split, task, tasks, targets_NT, metadata)
    sides = (SPLIT_NAMES[side] for side in split)
    rows = (
        (name, "dropped", reason, "", "", "") if reason else (name, "kept", "", note, scaffold, next(sides))
        for name, reason, note, scaffold in zip(names, reasons, notes, scaffolds, strict=True)
    )
    write_audit(output, ("molecule", "status", "reason", "notes", "scaffold", "split"), rows)
    return PreparedMolecules(
        {name: int((split == each).sum()) for each, name in enumerate(SPLIT_NAMES)},
        len(tasks),
        task,
        sum(map(bool, notes)),
        [f"{name} {reason}" for name, reason in zip(names, reasons, strict=True) if reason],
        leakage,
    )


def _filled(texts: Texts, number: int) -> Texts:
    """Texts with empty ones up to a number of them."""
    while len(texts) < number:
        texts.append("")
    return texts


def _targets(
    path: Path, ids: Sequence[str], table: Mapping[str, Texts], settings: PreparationSettings
) -> tuple[list[str], NDArray[np.float32]]:
    """Names of the tasks, and their values (N, T). A column of words becomes one task of 0 and 1 for each word."""
    numeric = [name for name, cells in table.items() if all(is_missing(c) or is_number(c) for c in cells)]
    source = str(path)
    for name in [] if settings.targets else table.keys() - numeric:
        if sum(is_number(cell) or has_comma(cell) for cell in table[name]) > 0.5 * len(ids):
            slip = next(cell for cell in table[name] if not (is_missing(cell) or is_number(cell)))
            LOGGER.warning(f"{path}: the column {name!r} is not learned: {slip!r} is no number")
    if settings.responses is not None:
        more = _read_responses(settings.responses, ids)
        source = f"{source} and {settings.responses}"
        numeric = list(more) if not settings.targets else [*numeric, *more]
        table = {**table, **more}
    tasks: list[str] = []
    values: list[NDArray[np.float32]] = []
    for name in settings.targets or numeric:
        if name not in table:
            raise FormatError(
                f"{source}: --target: there is no column {name!r}; there are {', '.join(table)}"
            )
        cells = list(table[name])
        present = [cell for cell in cells if not is_missing(cell)]
        if all(map(is_number, present)):
            if present:
                tasks.append(name)
                numbers = parse_numbers(cells, partial(_where, source, ids, name))
                values.append(numbers.astype(np.float32))
            continue
        if any(map(is_number, present)):
            slip = next(cell for cell in present if not is_number(cell))
            raise FormatError(f"{source}: column {name!r} mixes numbers and words, such as {slip!r}")
        if all(map(has_comma, present)):  # a class for each number
            parse_numbers(cells, partial(_where, source, ids, name))
        for word in sorted(set(present)):
            tasks.append(f"{name}={word}")
            is_word = [np.nan if is_missing(cell) else float(cell == word) for cell in cells]
            values.append(np.array(is_word, np.float32))
    if not tasks:
        raise BioattnError(
            f"{source}: no column of numbers was measured (the first beside the SMILES names the molecules); give "
            "measured values there or with --responses, or choose a column of words with --target"
        )
    return tasks, np.stack(values, axis=1)


def _where(source: str, ids: Sequence[str], column: str, row: int) -> str:
    return f"{source}: {ids[row]}, column {column!r}"


def _read_responses(path: Path, ids: Sequence[str]) -> dict[str, Texts]:
    """Cells of every column but the first, which names the molecules, in the order of `ids`."""
    reader = open_table(path)
    found = [Texts() for _ in reader.header]
    row_of: dict[str, int] = {}
    for line, cells in reader.rows():
        if row_of.setdefault(cells[0], len(found[0])) != len(found[0]):
            raise FormatError(f"{path}:{line}: the molecule {cells[0]!r} has a row already")
        for texts, cell in zip(found, cells, strict=True):
            texts.append(cell)
    absent = sum(name not in row_of for name in ids)
    if absent == len(ids):
        raise FormatError(f"{path}: names no molecule of the table; its first column must hold their names")
    if absent:
        LOGGER.warning(
            f"{path}: {absent:,} of {counted(len(ids), 'molecule')} have no row and count as missing"
        )
    columns: dict[str, Texts] = {}
    for name, texts in zip(reader.header[1:], found[1:], strict=True):
        all_cells = [*texts, ""]
        columns[name] = Texts()
        for each in ids:
            columns[name].append(all_cells[row_of.get(each, -1)])
    return columns


def _leakage(fingerprints: h5py.Dataset, split: NDArray[np.uint8], here: int) -> dict[str, Any]:
    """How near the molecules of a held-out side are to the nearest one of training, block by block of the file."""
    rows = np.flatnonzero(split == here)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, LEAKAGE_SAMPLE).round().astype(int))]
    blocks = [slice(start, start + LEAKAGE_BLOCK) for start in range(0, len(split), LEAKAGE_BLOCK)]
    wanted = np.isin(np.arange(len(split)), rows)
    held_out = np.concatenate([fingerprints[block][wanted[block]] for block in blocks])
    nearest = np.zeros(len(rows))
    for block in blocks:
        similar = tanimoto(held_out, fingerprints[block][split[block] == TRAIN])
        nearest = np.maximum(nearest, similar.max(1, initial=0))
    found: dict[str, Any] = {
        "side": SPLIT_NAMES[here],
        "compared": len(rows),
        "median_tanimoto": round(float(np.median(nearest)), 4),
        "similar": round(float((nearest >= SIMILAR).mean()), 6),
    }
    LOGGER.info(
        f"{found['side']} against train: median Tanimoto of the nearest {found['median_tanimoto']:.2f}; "
        f"{percentage(found['similar'], 1)} of {counted(len(rows), 'molecule')} have one of {SIMILAR:g} or more"
    )
    return found
