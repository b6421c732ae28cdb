"""Molecules to learn from: a dataset of a table of SMILES or an SDF file, cleaned, split and audited.

Simulated ones are chains of pieces in which a planted substructure acts, and another one does not.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION, Task
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import has_comma, is_missing, is_number, open_table, parse_numbers
from bioattn.io.files import sha256_of, text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.io.records import audit_path, write_audit
from bioattn.models.molecule.family import MoleculePreparation, MoleculeSimulation, MoleculeSplit
from bioattn.models.running import Running, RunReport
from bioattn.molecules.chemistry import MEASURED, clean_molecules, read_molecule, read_records, require_rdkit
from bioattn.molecules.dataset import MoleculeDataset, write_molecule_dataset
from bioattn.molecules.graphs import Collector, Molecules
from bioattn.molecules.similarity import tanimoto
from bioattn.promoters.splits import (
    SplitWords,
    parse_holdouts,
    read_split_table,
    split_by_group,
    split_by_table,
)
from bioattn.simulate.description import INDEX, MOLECULES_FORMAT
from bioattn.system.progress import Progress
from bioattn.text import counted, percentage, quoted

LOGGER = logging.getLogger("bioattn")

MOLECULES = SplitWords("molecule", "molecules", "random")
_SIGN = re.compile(r"'?(=|~|[<>]=?|<<|>>|[≤≥])'?")
"""How a value stands to what was measured, in a column of its own (ChEMBL: Standard Relation)."""
_KINDS = {"unit": "units", "type": "types", "endpoint": "endpoints", "assay": "assays"}
"""What a column with this in its name says of the values beside it."""
LEAST_NUMBERS = 0.1
"""Share of such cells from which a column is taken for one of measured values."""
SPAN = 1000
"""Times the smallest from which the largest of positive values calls for logarithms."""
SIMILAR = 0.6
"""Tanimoto similarity from which two molecules count as near relatives."""
LEAKAGE_SAMPLE = 2000
"""Molecules of a held-out side that are compared with those of training, at most."""
LEAKAGE_BLOCK = 512
FILES = ("molecules.tsv", "truth.tsv", INDEX)
PIECES = (
    *("C", "CC", "C(C)", "O", "N", "C(=O)", "C(F)"),
    *("C(O)", "S", "C(=O)O", "c1ccc(cc1)", "C1CCC(CC1)", "C(C#N)"),
)
"""SMILES that can stand in a chain."""
PLANTED, DECOY = "C(=O)NS(=O)(=O)", "C(=O)NC(=O)"
"""The acyl sulfonamide acts; the imide, which shares a half with it, does not."""
PLANTED_SMARTS = "C(=O)[NH]S(=O)(=O)"
MOST_PIECES = 8
"""Pieces that a simulated molecule is made of, at most."""
EFFECT, NOISE = 2.0, 0.5
"""What the acyl sulfonamide adds to the activity, and the standard deviation added to it."""


def prepare(settings: MoleculePreparation, running: Running) -> RunReport:
    """Write the dataset and, beside it, an audit of every record.

    Raises: FormatError for a column that is missing or mixes numbers and words; BioattnError when no molecule can
    be used or no value was measured; SettingsError for holdouts that are no shares.
    """
    path, output = settings.table, settings.output
    molecules, table, audit = _read(settings, running.progress)
    tasks, targets_NT = _targets(path, molecules.ids, table, settings)
    split = _split(molecules.ids, [scaffold for _, reason, _, scaffold in audit if not reason], settings)
    sides = [side for side in (VALIDATION, TEST) if (split == side).any()]
    leakage = [_leakage(molecules.fingerprints, split, side) for side in sides]
    binary = bool(np.isin(targets_NT[np.isfinite(targets_NT)], (0, 1)).all())
    task = Task.BINARY if binary else Task.REGRESSION
    inputs = [each for each in (path, settings.responses, settings.split_table) if each is not None]
    chosen = {
        "smiles_column": settings.smiles_column,
        "targets": list(settings.target),
        "responses": settings.responses and settings.responses.name,
        "holdouts": list(settings.holdout),
        "split_table": settings.split_table and settings.split_table.name,
        "seed": settings.seed,
    }
    metadata = {
        "files": [{"name": each.name, "sha256": sha256_of(each)} for each in inputs],
        "settings": {name: value for name, value in chosen.items() if value is not None},
        "leakage": leakage,
    }
    write_molecule_dataset(
        output, MoleculeDataset(output, molecules, split, task, tasks, targets_NT, metadata)
    )
    side_names = (SPLIT_NAMES[side] for side in split)
    rows = (
        (name, "dropped", reason, "", "", "")
        if reason
        else (name, "kept", "", note, scaffold, next(side_names))
        for name, reason, note, scaffold in audit
    )
    write_audit(output, ("molecule", "status", "reason", "notes", "scaffold", "split"), rows)
    dropped = [f"{name} {reason}" for name, reason, _, _ in audit if reason]
    if dropped:
        running.warn(f"{counted(len(dropped), 'record')} left out; the first: {dropped[0]}")
    sizes = {name: int((split == each).sum()) for each, name in enumerate(SPLIT_NAMES)}
    noted = sum(bool(note) for _, _, note, _ in audit)
    measured = [(name, targets_NT[split == each]) for each, name in enumerate(SPLIT_NAMES)]
    ones = (f"{name} {(own == 1).sum():,} of {np.isfinite(own).sum():,}" for name, own in measured)
    balance = f", of which are 1: {', '.join(ones)}" if binary else ""
    return RunReport(
        f"wrote {output} and {audit_path(output)}: molecules: "
        f"{', '.join(f'{name} {size:,}' for name, size in sizes.items())}; {counted(len(tasks), 'task')} "
        f"({task}: {quoted(tasks)}{balance}); {noted:,} with a note on salts, charges or stereo",
        outputs=[output, audit_path(output)],
        molecules=sizes,
        dropped=len(dropped),
        leakage=leakage,
    )


def _read(
    settings: MoleculePreparation, progress: Progress
) -> tuple[Molecules, dict[str, list[str]], list[tuple[str, str, str, str]]]:
    """Molecules, cells of further columns; and name, reason of a refusal, notes and scaffold of each record."""
    collector = Collector()
    columns: dict[str, list[str]] = {}
    audit: list[tuple[str, str, str, str]] = []
    records = read_records(settings.table, settings.smiles_column)
    for name, molecule, reason, cells in clean_molecules(records, settings.table, progress):
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
    return molecules, {name: texts + [""] * (number - len(texts)) for name, texts in columns.items()}, audit


def _split(ids: Sequence[str], scaffolds: Sequence[str], settings: MoleculePreparation) -> NDArray[np.uint8]:
    if settings.split_table is not None:
        return split_by_table(ids, read_split_table(settings.split_table), MOLECULES)
    kind, groups = "random", np.arange(len(ids))
    if settings.split is MoleculeSplit.SCAFFOLD:
        kind, groups = "scaffold", np.unique(scaffolds, return_inverse=True)[1]
    holdouts = parse_holdouts(settings.holdout, with_treatments=False)
    return split_by_group(groups, holdouts, settings.seed, kind, MOLECULES)


def _targets(
    path: Path, ids: Sequence[str], table: Mapping[str, list[str]], settings: MoleculePreparation
) -> tuple[list[str], NDArray[np.float32]]:
    """Names of the tasks, and their values (N, T). Each word of a column, of two the rarer, is a class: 0 or 1."""
    numeric = [name for name, cells in table.items() if all(is_missing(c) or is_number(c) for c in cells)]
    source = str(path)
    for name, cells in table.items():
        present = [cell for cell in cells if not is_missing(cell)]
        beyond = [cell for cell in cells if set(cell) & set("<>≤≥")]
        if beyond and all(map(_SIGN.fullmatch, present)):
            LOGGER.warning(
                f"{path}: the column {name!r} says of {counted(len(beyond), 'value')} ({beyond[0]}) that they lie "
                "beyond what was measured; they are learned as if measured: leave them out, or make classes"
            )
        kind = next((words for part, words in _KINDS.items() if part in name.lower()), "")
        kinds = sorted(set(present)) if kind else []
        if len(kinds) > 1 and not any(map(is_number, kinds)):
            LOGGER.warning(
                f"{path}: values have several {kind} ({quoted(kinds)} in the column {name!r}); they are learned "
                "as they stand: give all in one, or a table of each"
            )
        slips = [] if settings.target else [cell for cell in present if not is_number(cell)]
        if slips and sum(bool(MEASURED.match(cell)) for cell in present) >= LEAST_NUMBERS * len(present):
            LOGGER.warning(
                f"{path}: the column {name!r} is not learned: {slips[0]!r} is no number ({len(slips):,} of "
                f"{counted(len(present), 'cell')} are none); write a number, or leave the cell empty"
            )
    if settings.responses is not None:
        more = _read_responses(settings.responses, ids)
        source = f"{source} and {settings.responses}"
        numeric = list(more) if not settings.target else [*numeric, *more]
        table = {**table, **more}
    tasks: list[str] = []
    values: list[NDArray[np.float32]] = []
    for name in dict.fromkeys(settings.target or numeric):
        if name not in table:
            raise FormatError(
                f"{source}: --target: there is no column {name!r}; there are {', '.join(table)}"
            )
        cells = table[name]
        present = [cell for cell in cells if not is_missing(cell)]
        words = sorted(set(present))
        if all(map(is_number, present)) or all(map(has_comma, present)):  # commas are refused
            if present:
                tasks.append(name)
                numbers = parse_numbers(cells, partial(_where, source, ids, name))
                values.append(numbers.astype(np.float32))
                least, most = np.nanmin(numbers), np.nanmax(numbers)
                if 0 < SPAN * least <= most:
                    LOGGER.warning(
                        f"{source}: values of {name!r} lie between {least:.3g} and {most:.3g}, and the largest "
                        "would decide alone what is learned; give their logarithms, as pIC50 for IC50"
                    )
            continue
        if any(map(is_number, present)) or (
            any(map(MEASURED.match, present)) and 2 * len(words) > len(present)
        ):
            slip = next(cell for cell in present if not is_number(cell))
            raise FormatError(
                f"{source}: column {name!r} mixes numbers and words, such as {slip!r}; give numbers of one unit"
            )
        if len(words) == 2:  # of the other, all would be said twice
            words = [min(words, key=present.count)]
        for word in words:
            tasks.append(f"{name}={word}")
            is_word = [np.nan if is_missing(cell) else float(cell == word) for cell in cells]
            values.append(np.array(is_word, np.float32))
    if not tasks:
        raise BioattnError(
            f"{source}: no column of numbers was measured (one column names the molecules); give "
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


def simulate(settings: MoleculeSimulation, running: Running) -> RunReport:
    """Write the folder. Each molecule is there once; half hold the planted substructure, half the decoy."""
    chem = require_rdkit()
    generator = np.random.default_rng(settings.seed)
    pattern = chem.MolFromSmarts(PLANTED_SMARTS)
    seen: set[str] = set()
    check_output_folder(settings.output, force=settings.force)
    with atomic_folder(settings.output, FILES) as folder:
        with text_output(folder / FILES[0]) as table, text_output(folder / FILES[1]) as truth:
            table.write("id\tsmiles\tactivity\n")
            truth.write("id\tatoms\n")
            while len(seen) < settings.molecules:
                number = int(generator.integers(2, MOST_PIECES + 1))
                pieces = generator.choice(PIECES, number).tolist()
                for motif in (PLANTED, DECOY):
                    if generator.random() < 0.5:
                        pieces.insert(int(generator.integers(1, len(pieces))), motif)
                smiles = read_molecule("C" + "".join(pieces) + "C").smiles
                if smiles in seen:
                    continue
                seen.add(smiles)
                atoms = chem.MolFromSmiles(smiles).GetSubstructMatch(pattern)
                activity = EFFECT * bool(atoms) + NOISE * generator.standard_normal()
                table.write(f"molecule{len(seen)}\t{smiles}\t{activity:.4f}\n")
                truth.write(f"molecule{len(seen)}\t{','.join(str(atom + 1) for atom in sorted(atoms))}\n")
        settled = {name: value for name, value in asdict(settings).items() if name not in ("output", "force")}
        write_json(folder / INDEX, {"format": MOLECULES_FORMAT, "format_version": 1, **settled})
    return RunReport(
        f"wrote {settings.output}: {counted(settings.molecules, 'molecule')}",
        f"next: bioattn prepare molecules {settings.output / FILES[0]} --split random -o X.dataset.h5",
        outputs=[settings.output],
    )
