"""What `bioattn inspect` and `bioattn validate` say of the files of a prediction.

`docs/formats/evoformer-output.md` is the contract.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.rr import ranked_pairs, read_rr
from bioattn.formats.tables import open_table
from bioattn.io.files import read_json
from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.io.seal import check_seal
from bioattn.store.problems import Problem, error, seal_warnings
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
_PROBABILITY_TOLERANCE = 1e-5
_DISTANCE_TOLERANCE = 1e-3


def describe_arrays(path: Path) -> dict[str, Any]:
    """Main figures of a file of distances or representations. Raises: FormatError when it is damaged."""
    sealed = check_seal(path)
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
            "sealed": sealed,
            "arrays": arrays,
        }


def validate_arrays(path: Path) -> list[Problem]:
    """What is wrong with a file of distances or representations.

    Its seal, shapes, NaN and infinite values, probabilities that do not sum to 1, matrices that are not symmetric.
    """
    try:
        with open_hdf5(path) as file:
            return [*_check(file), *seal_warnings(path)]
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


class _Predicted(NamedTuple):
    """What the lines of contacts must say, by distogram.h5."""

    sequence: str
    residues: dict[int, str]
    """By column from 1, as contacts.tsv writes them."""
    pairs: list[tuple[int, int]]
    """Columns from 1, the likeliest first."""
    probabilities: NDArray[np.float64]
    distances: NDArray[np.float64]


def compare_contacts(folder: Path) -> list[Problem]:
    """Compare contacts.rr, contacts.tsv and scores.json with distogram.h5, each of which is valid on its own.

    The first difference of each file is told. Raises: FormatError when one cannot be read after all.
    """
    predicted = _read_distogram(folder / "distogram.h5")
    # Each is left at its first difference, so what follows may build on what came before.
    found = [
        next(differences, None)
        for differences in (
            _in_scores(read_json(folder / "scores.json"), predicted),
            _in_list(folder / "contacts.rr", predicted),
            _in_table(folder / "contacts.tsv", predicted),
        )
    ]
    return [problem for problem in found if problem is not None]


def _read_distogram(path: Path) -> _Predicted:
    with open_hdf5(path) as file:
        columns = file["column_i"][()]
        numbers = file["residue_number"][()].tolist()
        probabilities, distances = file["contact_probability"][()], file["expected_distance"][()]
        sequence = text_attribute(file, "sequence") or ""
    first, second = ranked_pairs(probabilities, columns)
    return _Predicted(
        sequence=sequence,
        residues={
            column: "" if number < 0 else str(number)
            for column, number in zip(columns.tolist(), numbers, strict=True)
        },
        pairs=list(zip(columns[first].tolist(), columns[second].tolist(), strict=True)),
        probabilities=probabilities[first, second].astype(np.float64),
        distances=distances[first, second].astype(np.float64),
    )


def _in_scores(scores: dict[str, Any], predicted: _Predicted) -> Iterator[Problem]:
    if scores["contact_pairs"] != len(predicted.pairs):
        yield error(
            "scores.json contact_pairs",
            f"is {scores['contact_pairs']}, distogram.h5 has {len(predicted.pairs):,}",
        )


def _in_list(path: Path, predicted: _Predicted) -> Iterator[Problem]:
    listed = read_rr(path)
    if listed.sequence != predicted.sequence:
        yield error(path.name, "is of another sequence than distogram.h5")
    for rank, pair in enumerate(listed.pairs[: len(predicted.pairs)]):
        yield from _in_pair(path.name, rank, (pair.i, pair.j), pair.probability, predicted)
    yield from _in_number(path.name, len(listed.pairs), predicted)


def _in_table(path: Path, predicted: _Predicted) -> Iterator[Problem]:
    table = open_table(path)
    if table.header != CONTACT_COLUMNS:
        yield error(path.name, f"has the columns {', '.join(table.header)}; not {', '.join(CONTACT_COLUMNS)}")
        return
    rows = 0
    for rank, (line, cells) in enumerate(table.rows()):
        rows += 1
        if rank >= len(predicted.pairs):
            continue
        where = f"{path.name} line {line}"
        try:
            i, j = int(cells[0]), int(cells[1])
            probability, distance = float(cells[6]), float(cells[7])
        except ValueError:
            yield error(where, f"is {' '.join(cells)[:60]!r}, where numbers are needed")
            return
        if not 0 <= probability <= 1:
            yield error(where, f"the probability {probability:g} does not lie between 0 and 1")
        yield from _in_pair(where, rank, (i, j), probability, predicted)
        letters = predicted.sequence
        known = (predicted.residues[i], predicted.residues[j], letters[i - 1], letters[j - 1])
        if tuple(cells[2:6]) != known:
            yield error(where, f"says {' '.join(cells[2:6])} of columns {i} and {j}, not {' '.join(known)}")
        if not abs(distance - predicted.distances[rank]) <= _DISTANCE_TOLERANCE:
            yield error(
                where, f"the distance is {distance:g}, {predicted.distances[rank]:.3f} in distogram.h5"
            )
    yield from _in_number(path.name, rows, predicted)


def _in_pair(
    where: str, rank: int, pair: tuple[int, int], probability: float, predicted: _Predicted
) -> Iterator[Problem]:
    if pair != predicted.pairs[rank]:
        yield error(
            where,
            f"pair {rank + 1:,} is columns {pair[0]} and {pair[1]}; by distogram.h5 it is "
            f"{predicted.pairs[rank][0]} and {predicted.pairs[rank][1]}",
        )
    if not abs(probability - predicted.probabilities[rank]) <= _PROBABILITY_TOLERANCE:
        yield error(
            where,
            f"columns {pair[0]} and {pair[1]} have probability {probability:g}, "
            f"{predicted.probabilities[rank]:.5f} in distogram.h5",
        )


def _in_number(name: str, number: int, predicted: _Predicted) -> Iterator[Problem]:
    if number != len(predicted.pairs):
        yield error(name, f"holds {number:,} pairs, distogram.h5 has {len(predicted.pairs):,}")
