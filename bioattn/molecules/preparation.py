"""From a table of SMILES or an SDF file to a dataset: cleaned, split and audited."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Task
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import has_comma, is_missing, is_number, open_table, parse_numbers
from bioattn.io.audit import write_audit
from bioattn.io.files import sha256_of
from bioattn.molecules.chemistry import MoleculeError, read_molecule, read_records, require_rdkit
from bioattn.molecules.dataset import MoleculeDataset, write_molecule_dataset
from bioattn.molecules.graphs import Collector, Molecule
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


def read_molecules(
    path: Path, smiles_column: str | None = None, progress: Progress = SILENT, *, unique: bool = True
) -> Iterator[Record]:
    """Read and clean the molecules of a table or an SDF file, one after another.

    unique: of records of one molecule keep the first. Of records of one name the first is always kept.

    Raises: FormatError without a column of SMILES; BioattnError when no molecule can be used.
    """
    yield from clean_molecules(read_records(path, smiles_column), path, progress, unique=unique)


def clean_molecules(
    records: Iterable[tuple[str, str, Mapping[str, str]]],
    path: Path,
    progress: Progress = SILENT,
    *,
    unique: bool = True,
) -> Iterator[Record]:
    """Clean molecules, given as name, SMILES or MOL block, and further cells.

    path: for messages. unique and errors: as `read_molecules`.
    """
    require_rdkit()
    names, first_of = set[str](), dict[int, str]()
    first = ""
    progress.begin("molecules", None)
    for name, text, columns in records:
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

    Raises: FormatError for a column that is missing or mixes numbers and words; BioattnError when no molecule can
    be used or no value was measured; SettingsError for holdouts that are no shares.
    """
    collector = Collector()
    columns: dict[str, list[str]] = {}
    audit: list[tuple[str, str, str, str]] = []
    """Name, reason of a refusal, notes and scaffold of each record."""
    for name, molecule, reason, cells in read_molecules(path, settings.smiles_column, progress):
        if molecule is None:
            audit.append((name, reason, "", ""))
            continue
        kept = collector.add(name, molecule)
        for column, cell in cells.items():
            texts = columns.setdefault(column, [])
            texts += [""] * (kept - len(texts)) + [cell]
        audit.append((name, "", "; ".join(molecule.notes), molecule.scaffold))
    molecules = collector.molecules()
    number = len(molecules.ids)
    table = {column: texts + [""] * (number - len(texts)) for column, texts in columns.items()}
    tasks, targets_NT = _targets(path, molecules.ids, table, settings)
    split = _split(molecules.ids, [scaffold for _, reason, _, scaffold in audit if not reason], settings)
    leakage = [
        _leakage(molecules.fingerprints, split, here) for here in (VALIDATION, TEST) if (split == here).any()
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
    write_molecule_dataset(
        output, MoleculeDataset(output, molecules, split, task, tasks, targets_NT, metadata)
    )
    sides = (SPLIT_NAMES[side] for side in split)
    rows = (
        (name, "dropped", reason, "", "", "") if reason else (name, "kept", "", note, scaffold, next(sides))
        for name, reason, note, scaffold in audit
    )
    write_audit(output, ("molecule", "status", "reason", "notes", "scaffold", "split"), rows)
    return PreparedMolecules(
        {name: int((split == each).sum()) for each, name in enumerate(SPLIT_NAMES)},
        len(tasks),
        task,
        sum(bool(note) for _, _, note, _ in audit),
        [f"{name} {reason}" for name, reason, _, _ in audit if reason],
        leakage,
    )


def _split(ids: Sequence[str], scaffolds: Sequence[str], settings: PreparationSettings) -> NDArray[np.uint8]:
    if settings.split_table is not None:
        return split_by_table(ids, read_split_table(settings.split_table), MOLECULES)
    kind, groups = "random", np.arange(len(ids))
    if settings.by_scaffold:
        kind, groups = "scaffold", np.unique(scaffolds, return_inverse=True)[1]
    holdouts = parse_holdouts(settings.holdouts, with_treatments=False)
    return split_by_group(groups, holdouts, settings.seed, kind, MOLECULES)


def _targets(
    path: Path, ids: Sequence[str], table: Mapping[str, list[str]], settings: PreparationSettings
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
        cells = table[name]
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


def _read_responses(path: Path, ids: Sequence[str]) -> dict[str, list[str]]:
    """Cells of every column but the first, which names the molecules, in the order of `ids`."""
    reader = open_table(path)
    rows: dict[str, list[str]] = {}
    for line, cells in reader.rows():
        if rows.setdefault(cells[0], cells) is not cells:
            raise FormatError(f"{path}:{line}: the molecule {cells[0]!r} has a row already")
    absent = sum(name not in rows for name in ids)
    if absent == len(ids):
        raise FormatError(f"{path}: names no molecule of the table; its first column must hold their names")
    if absent:
        LOGGER.warning(
            f"{path}: {absent:,} of {counted(len(ids), 'molecule')} have no row and count as missing"
        )
    nothing = [""] * len(reader.header)
    return {
        name: [rows.get(molecule, nothing)[place] for molecule in ids]
        for place, name in enumerate(reader.header)
        if place
    }


def _leakage(fingerprints: NDArray[np.uint8], split: NDArray[np.uint8], here: int) -> dict[str, Any]:
    """How near the molecules of a held-out side are to the nearest one of training."""
    rows = np.flatnonzero(split == here)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, LEAKAGE_SAMPLE).round().astype(int))]
    training = fingerprints[split == TRAIN]
    nearest = np.zeros(len(rows))
    for start in range(0, len(training), LEAKAGE_BLOCK):
        similar = tanimoto(fingerprints[rows], training[start : start + LEAKAGE_BLOCK])
        nearest = np.maximum(nearest, similar.max(1))
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
