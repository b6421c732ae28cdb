"""What `bioattn inspect` and `bioattn validate` say of the files of a prediction.

`docs/formats/evoformer-output.md` is the contract.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.rr import ranked_pairs, read_rr
from bioattn.formats.tables import is_number, open_table
from bioattn.io.files import read_json
from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.store.problems import Problem, error
from bioattn.structures.distogram_file import DISTOGRAM_FORMAT, FORMAT_VERSION

REPRESENTATIONS_FORMAT = "bioattn-representations"
CONTACT_COLUMNS = (
    "column_i",
    "column_j",
    "residue_i",
    "residue_j",
    "letter_i",
    "letter_j",
    "probability",
    "expected_distance",
)
"""Of contacts.tsv."""
_ROWS_AT_ONCE = 64
_SCALES = ("column_i", "column_j", "residue_number")
_SYMMETRIC = ("contact_probability", "expected_distance")
_TOLERANCE = 1e-3


def describe_arrays(path: Path) -> dict[str, Any]:
    """Main figures of a file of distances or representations. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        arrays = {
            name: " × ".join(map(str, node.shape))
            for name, node in file.items()
            if isinstance(node, h5py.Dataset) and node.ndim > 1
        }
        columns = len(file["column_i"])
        return {
            "format_version": int(file.attrs.get("format_version", 0)),
            "generated_by": text_attribute(file, "generated_by"),
            "id": text_attribute(file, "id"),
            "target": text_attribute(file, "target"),
            "columns": columns,
            "model_sha256": text_attribute(file, "model_sha256"),
            "input_sha256": text_attribute(file, "input_sha256"),
            "arrays": arrays,
        }


def validate_arrays(path: Path) -> list[Problem]:
    """What is wrong with a file of distances or representations.

    Its shapes, NaN and infinite values, probabilities that do not sum to 1, matrices that are not symmetric.
    """
    try:
        with open_hdf5(path) as file:
            return list(_check(file))
    except FormatError as problem:
        return [error("", str(problem).removeprefix(f"{path}: "))]


def _check(file: h5py.File) -> list[Problem]:
    kind = text_attribute(file, "format")
    version = int(file.attrs.get("format_version", 0))
    if version != FORMAT_VERSION:
        return [error("", f"has format version {version}, this bioattn reads {FORMAT_VERSION}")]
    required = [*_SCALES]
    if kind == DISTOGRAM_FORMAT:
        required += ["bin_edge", "probability", *_SYMMETRIC]
    missing = [error(name, "is missing") for name in required if name not in file]
    if missing:
        return missing
    size = len(file["column_i"])
    problems = []
    columns = file["column_i"][()]
    if np.any(np.diff(columns) <= 0) or (size and columns[0] < 1):
        problems.append(error("column_i", "columns must ascend from 1 on"))
    for name, node in file.items():
        if node.ndim < 2:
            continue
        if kind == DISTOGRAM_FORMAT and node.shape[:2] != (size, size):
            problems.append(error(name, f"has shape {node.shape} for {size} columns"))
            continue
        for start in range(0, len(node), _ROWS_AT_ONCE):
            part = node[start : start + _ROWS_AT_ONCE]
            if not np.isfinite(part).all():
                problems.append(error(name, "holds NaN or infinite values"))
                break
            if name == "probability" and np.any(np.abs(part.sum(-1) - 1) > _TOLERANCE):
                problems.append(error(name, f"does not sum to 1 in rows {start} and on"))
                break
    if kind == DISTOGRAM_FORMAT and not problems:
        for name in _SYMMETRIC:
            values = file[name][()]
            if np.any(np.abs(values - values.T) > _TOLERANCE * (1 + np.abs(values))):
                problems.append(error(name, "is not symmetric"))
    return problems


def contact_rows(
    letters: str,
    columns: NDArray[np.integer],
    numbers: Sequence[int | None],
    probabilities: NDArray[np.floating],
    distances: NDArray[np.floating],
) -> Iterator[list[str]]:
    """The cells of the lines of contacts.tsv, the likeliest pair first.

    letters: one per match column of the alignment. columns: (R,) match columns from 0 that the model saw, and the
    `numbers` of their residues, None for a gap. probabilities, distances: (R, R).
    """
    named = ["" if number is None else str(number) for number in numbers]
    for i, j in zip(*(rows.tolist() for rows in ranked_pairs(probabilities, columns)), strict=True):
        places = int(columns[i]), int(columns[j])
        yield [
            *(str(place + 1) for place in places),
            *(named[i], named[j]),
            *(letters[place] for place in places),
            *(f"{probabilities[i, j]:.5f}", f"{distances[i, j]:.3f}"),
        ]


def compare_contacts(folder: Path) -> list[Problem]:
    """Compare contacts.rr, contacts.tsv and scores.json with distogram.h5, each of which is valid on its own.

    The first difference of each file is told. Raises: FormatError when one cannot be read after all.
    """
    with open_hdf5(folder / "distogram.h5") as file:
        columns = file["column_i"][()] - 1
        numbers = [None if number < 0 else number for number in file["residue_number"][()].tolist()]
        probabilities, distances = file["contact_probability"][()], file["expected_distance"][()]
        letters = text_attribute(file, "sequence") or ""
    number = len(ranked_pairs(probabilities, columns)[0])
    problems = []
    counted = read_json(folder / "scores.json")["contact_pairs"]
    if counted != number:
        problems.append(error("scores.json contact_pairs", f"is {counted}, distogram.h5 has {number:,}"))

    def rows() -> Iterator[list[str]]:
        return contact_rows(letters, columns, numbers, probabilities, distances)

    listed, table = read_rr(folder / "contacts.rr"), open_table(folder / "contacts.tsv")
    if listed.sequence != letters:
        problems.append(error("contacts.rr", "is of another sequence than distogram.h5"))
    else:
        pairs = (("contacts.rr", [str(pair.i), str(pair.j), str(pair.probability)]) for pair in listed.pairs)
        problems += _first_difference("contacts.rr", pairs, ([row[0], row[1], row[6]] for row in rows()))
    if table.header != CONTACT_COLUMNS:
        named = ", ".join(CONTACT_COLUMNS)
        problems.append(error("contacts.tsv", f"has the columns {', '.join(table.header)}; not {named}"))
    else:
        lines = ((f"contacts.tsv line {line}", cells) for line, cells in table.rows())
        problems += _first_difference("contacts.tsv", lines, rows())
    return problems


def _first_difference(
    name: str, found: Iterable[tuple[str, list[str]]], expected: Iterable[list[str]]
) -> list[Problem]:
    """found: where a pair stands in the file `name`, and its cells."""
    for line, wanted in zip_longest(found, expected):
        if line is None:
            return [error(name, f"ends before the pair {' '.join(wanted or ())} of distogram.h5")]
        where, cells = line
        if wanted is None:
            return [error(where, "is one pair more than distogram.h5 has")]
        if not all(map(_is_same, cells, wanted)):
            return [error(where, f"says {' '.join(cells)[:80]}; by distogram.h5 it is {' '.join(wanted)}")]
    return []


def _is_same(cell: str, wanted: str) -> bool:
    """Whether a cell says what is wanted; decimals may differ by one in the last place."""
    _, point, decimals = wanted.partition(".")
    close = point and is_number(cell) and abs(float(cell) - float(wanted)) <= 10 ** -len(decimals)
    return cell == wanted or bool(close)
