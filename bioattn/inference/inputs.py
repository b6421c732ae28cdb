"""What a caller has in hand: sequences as text, in tables, as codes or one-hot arrays, or the path of a file.

sequences_in({"G1": "ACGT", "G2": "TTTT"}, "ACGTN")      # ids and sequences
codes_in(one_hot_NLA)                                    # ids and codes (N, L)
"""

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.nucleotides import UNKNOWN, decode

LOGGER = logging.getLogger("bioattn")
HELD = Path("the sequences")
"""Stands for the path of sequences in memory in messages."""
ID_COLUMNS = ("gene_id", "id", "name")
"""Columns of a table that name its rows; without one the index does."""

Inputs = Path | str | Mapping[str, Any] | Iterable[Any]
"""What models take: the path of a file; a sequence; sequences by name; a list of them, also of Biopython's
SeqRecord; a DataFrame with a column `sequence`; and of DNA also codes (N, L), 0 … 4 = A C G T N, and one-hot
arrays (N, 4, L) or (N, L, 4), NumPy's or torch's, all zeros for N."""


class Sequences(NamedTuple):
    """Sequences in memory."""

    ids: list[str]
    sequences: list[str]


class Codes(NamedTuple):
    """DNA in memory."""

    ids: list[str]
    codes_NL: NDArray[np.uint8]


def path_in(inputs: Any, letters: str) -> Path | None:
    """The path that the inputs are; None for anything else. letters: capital letters of a sequence; text is a path
    when there is such a file and it is no sequence."""
    if isinstance(inputs, Path):
        return inputs
    if not isinstance(inputs, str) or not inputs or not set(inputs.upper()) - set(letters):
        return None
    # os.path, unlike Path: a name that is longer than names can be names nothing
    return Path(inputs) if os.path.exists(inputs) else None  # noqa: PTH110


def sequences_in(inputs: Any, noun: str = "sequence", column: str = "sequence") -> Sequences:
    """Names and sequences of anything but a path.

    noun: what one is, for names such as `sequence_1`. column: of a DataFrame, the one that holds sequences; where
    there is none, the only column does.

    Raises: FormatError for what holds no sequences, and for a name that is empty, has a space or occurs twice.
    """
    if codes := codes_in(inputs):
        return Sequences(codes.ids, [decode(row) for row in codes.codes_NL])
    if isinstance(inputs, str):
        return Sequences([f"{noun}_1"], ["".join(inputs.split())])
    if hasattr(inputs, "columns"):
        names, texts = _of_table(inputs, noun, column)
    elif hasattr(inputs, "items"):
        names, texts = map(list, zip(*inputs.items(), strict=True)) if len(inputs) else ([], [])
    elif isinstance(inputs, Iterable):
        texts = [inputs] if hasattr(inputs, "seq") else list(inputs)
        names = [getattr(each, "id", f"{noun}_{number}") for number, each in enumerate(texts, start=1)]
    else:
        raise FormatError(f"a {type(inputs).__name__} holds no sequences")
    found = Sequences(
        [str(name) for name in names], ["".join(str(getattr(each, "seq", each)).split()) for each in texts]
    )
    if not found.ids:
        raise FormatError(f"{HELD}: there are none")
    for number, name in enumerate(found.ids):
        if not name.strip() or (noun == "sequence" and len(name.split()) != 1):
            raise FormatError(f"{HELD}: the name {name!r} is empty or holds a space; give it another")
        if not found.sequences[number]:
            raise FormatError(f"{HELD}: {name!r} has no letters")
    if len(set(found.ids)) < len(found.ids):
        twice = next(name for name in found.ids if found.ids.count(name) > 1)
        raise FormatError(f"{HELD}: the name {twice!r} is used twice; names must be unique")
    return found


def codes_in(inputs: Any) -> Codes | None:
    """The codes (N, L) that an array of codes or a one-hot array stands for; None for what is no array of numbers.

    Raises: FormatError for other codes or shapes, and for a one-hot array whose axes cannot be told apart.
    """
    if hasattr(inputs, "detach"):
        inputs = inputs.detach().cpu().numpy()
    if not isinstance(inputs, np.ndarray) or inputs.dtype.kind not in "iufb":
        return None
    if inputs.ndim == 3:
        codes_NL = _of_one_hot(inputs)
    elif inputs.ndim in (1, 2) and inputs.dtype.kind in "iu":
        codes_NL = np.atleast_2d(inputs)
        if codes_NL.size and not (codes_NL.min() >= 0 and codes_NL.max() <= UNKNOWN):
            raise FormatError(f"{HELD}: codes are 0 to {UNKNOWN} (A C G T N)")
        codes_NL = np.ascontiguousarray(codes_NL, dtype=np.uint8)
    else:
        raise FormatError(
            f"{HELD}: an array of {inputs.dtype} has shape {inputs.shape}; codes are integers (N, L), one-hot "
            "arrays are (N, 4, L) or (N, L, 4)"
        )
    if not codes_NL.size:
        raise FormatError(f"{HELD}: there are none")
    return Codes([f"sequence_{number}" for number in range(1, len(codes_NL) + 1)], codes_NL)


def names_in(value: str | Iterable[str]) -> tuple[str, ...]:
    """One name, or several."""
    return (value,) if isinstance(value, str) else tuple(value)


@contextmanager
def python_warnings() -> Iterator[None]:
    """Warn, as Python does, of what is logged as a warning in the body."""
    propagates, LOGGER.propagate = LOGGER.propagate, False
    LOGGER.addHandler(_WARNINGS)
    try:
        yield
    finally:
        LOGGER.removeHandler(_WARNINGS)
        LOGGER.propagate = propagates


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Show the line of the caller outside of bioattn."""
        import sys

        frame, level = sys._getframe(), 1
        while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in (
            "bioattn",
            "logging",
            "contextlib",
        ):
            frame, level = frame.f_back, level + 1
        warnings.warn(record.getMessage(), stacklevel=level)


_WARNINGS = _Warnings(logging.WARNING)


def _of_table(table: Any, noun: str, column: str) -> tuple[list[Any], list[Any]]:
    if column not in table.columns:
        others = [name for name in table.columns if name not in ID_COLUMNS]
        if len(others) != 1:
            raise FormatError(f"{HELD}: the table has no column {column!r}")
        (column,) = others
    names = next((table[name] for name in ID_COLUMNS if name in table.columns), None)
    if names is None and isinstance(table.index.dtype, np.dtype) and table.index.dtype.kind in "iu":
        names = [f"{noun}_{number}" for number in range(1, len(table) + 1)]
    return list(table.index if names is None else names), list(table[column])


def _of_one_hot(array: NDArray[Any]) -> NDArray[np.uint8]:
    axes = [axis for axis in (1, 2) if array.shape[axis] == 4]
    if len(axes) != 1:
        why = "either axis can be that of the bases" if axes else "no axis has four bases"
        raise FormatError(
            f"{HELD}: a one-hot array of shape {array.shape}: {why}; give (N, 4, L) or (N, L, 4)"
        )
    one_hot_NLA = np.moveaxis(array, axes[0], 2)
    total_NL = one_hot_NLA.sum(-1)
    if not np.isin(one_hot_NLA, (0, 1)).all() or not np.isin(total_NL, (0, 1)).all():
        raise FormatError(f"{HELD}: a one-hot array has a single 1 at each position, or 0 alone for N")
    return np.where(total_NL == 0, UNKNOWN, one_hot_NLA.argmax(-1)).astype(np.uint8)
