"""What a caller has in hand: sequences as text, in tables, as codes or one-hot arrays, or the path of a file.

sequences_in({"G1": "ACGT", "G2": "TTTT"})    # ids and sequences
sequences_in(one_hot_NLA, numbers=True)       # the same of arrays
"""

import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import UNKNOWN, decode
from bioattn.io.settings import DECLARED, require_limits
from bioattn.store.schema import Rows, Samples, taken

LOGGER = logging.getLogger("bioattn")
HELD = Path("the sequences")
"""Stands for the path of sequences in memory in messages."""
ID_COLUMNS = ("gene_id", "id", "name")
"""Columns of a table that name its rows; without one its index does or, where that only numbers the rows, the
first column of unique words."""

Inputs = Path | str | Mapping[str, Any] | Iterable[Any]
"""What models take: the path of a file; a sequence; sequences by name; a list of them, also of Biopython's
SeqRecord; a DataFrame with a column `sequence` (in any case), rows named as `ID_COLUMNS` says; and of DNA also
codes (N, L), 0 … 4 = A C G T N, and one-hot arrays (N, 4, L) or (N, L, 4), NumPy's or torch's, all zeros for N.
Without names they are called `sequence_1`, `sequence_2`, …"""


class Sequences(NamedTuple):
    """Sequences in memory."""

    ids: list[str]
    sequences: list[str]
    descriptions: list[str]
    """Of Biopython's records what follows the id, else empty."""


def path_in(inputs: Any, letters: str) -> Path | None:
    """The path that the inputs are; None for anything else. letters: of a sequence; text is a path when there is
    such a file and it is no sequence.

    Raises: BioattnError for text that is a path by its looks, of no file.
    """
    if isinstance(inputs, Path):
        return inputs
    if not isinstance(inputs, str) or not set(inputs) - set(letters):
        return None
    # os.path, unlike Path: a name that is longer than names can be names nothing
    if os.path.exists(inputs):  # noqa: PTH110
        return Path(inputs)
    if set(inputs) & set("./") and "\n" not in inputs:
        raise BioattnError(f"{inputs}: is no sequence, and there is no such file or folder")
    return None


def dataset_in(inputs: Any) -> Path:
    """The path of a dataset. Raises: BioattnError for anything but a path."""
    if not isinstance(inputs, Path | str):
        raise BioattnError(f"give the path of a dataset, not a {type(inputs).__name__}")
    return Path(inputs)


def sequences_in(
    inputs: Any,
    noun: str = "sequence",
    column: str = "sequence",
    *,
    numbers: bool = False,
    empty: bool = False,
) -> Sequences:
    """Names and sequences of anything but a path.

    noun: what one is, for names such as `sequence_1`. column: of a DataFrame, the one that holds sequences, in any
    case; where there is none, the only column does. numbers: whether they may also be codes or one-hot arrays of
    DNA. empty: whether one may have no letters, or be missing.

    Raises: FormatError for what holds no sequences, and for a name that is empty, has a space or occurs twice.
    """
    if numbers and (codes_NL := _codes(inputs)) is not None:
        inputs = [decode(row) for row in codes_NL]
    if hasattr(inputs, "items") and hasattr(inputs, "to_frame"):
        inputs = inputs.to_frame(column)
    if hasattr(inputs, "columns"):
        names, texts = _of_table(inputs, noun, column)
    elif hasattr(inputs, "items"):
        names, texts = list(inputs), list(inputs.values())
    elif isinstance(inputs, Iterable):
        texts = [inputs] if hasattr(inputs, "seq") or hasattr(inputs, "upper") else list(inputs)
        names = [getattr(each, "id", f"{noun}_{number}") for number, each in enumerate(texts, start=1)]
    else:
        raise FormatError(f"a {type(inputs).__name__} holds no sequences")
    ids = [str(name) for name in names]
    sequences = [_text(*each, numbers, empty) for each in zip(ids, texts, strict=True)]
    if noun == "sequence":
        sequences = ["".join(text.split()) for text in sequences]
    records = (getattr(each, "description", "") if hasattr(each, "seq") else "" for each in texts)
    found = Sequences(ids, sequences, [text.partition(" ")[2] for text in records])
    if not found.ids:
        raise FormatError(f"{HELD}: there are none")
    for number, name in enumerate(found.ids):
        if not name.strip() or (noun == "sequence" and len(name.split()) != 1):
            raise FormatError(f"{HELD}: the name {name!r} is empty or holds a space; give it another")
        if not (found.sequences[number] or empty):
            raise FormatError(f"{HELD}: {name!r} has no letters")
    if len(set(found.ids)) < len(found.ids):
        twice = next(name for name in found.ids if found.ids.count(name) > 1)
        raise FormatError(f"{HELD}: the name {twice!r} is used twice; names must be unique")
    return found


def names_in(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """One name, several, or none."""
    value = () if value is None else value
    return (value,) if isinstance(value, str) else tuple(value)


_TURN = threading.RLock()


@contextmanager
def python_call(settings: Any = None, **limited: Any) -> Iterator[None]:
    """What methods of models run in: one call at a time, as threads share the model and what listens to it, with
    `torch_defaults` and `python_warnings`.

    settings: of a command, whose limits hold for the options `limited`. Raises: SettingsError for one beyond them.
    """
    require_limits(
        {name: settings.__dataclass_fields__[name].metadata[DECLARED] for name in limited}, limited
    )
    with _TURN, torch_defaults(), python_warnings():
        yield


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Type, device and modes of torch as commands have them, whatever the caller chose."""
    import torch

    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        if device.type != "cpu":
            modes.enter_context(torch.device("cpu"))
        for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps")):
            modes.enter_context(torch.autocast(kind, enabled=False))
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


_calls = 0
"""Bodies of `python_warnings` that are running, in any thread."""


@contextmanager
def python_warnings() -> Iterator[None]:
    """Warn, as Python does, of what is logged as a warning in the body."""
    global _calls
    _calls += 1
    try:
        yield
    finally:
        _calls -= 1


def _warn(record: logging.LogRecord) -> bool:
    """In a call from Python show a warning at the line of the caller outside of bioattn, and log it no more."""
    import sys

    if not _calls or record.levelno < logging.WARNING:
        return True
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in (
        "bioattn",
        "logging",
        "contextlib",
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(record.getMessage(), stacklevel=level)
    return False


LOGGER.addFilter(_warn)


def _text(name: str, value: Any, numbers: bool, empty: bool) -> str:
    value = getattr(value, "seq", value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if numbers and (codes_NL := _codes(value)) is not None and len(codes_NL) == 1:
        return decode(codes_NL[0])
    if hasattr(value, "upper"):
        return str(value).strip()
    if empty and str(value) in ("None", "nan", "<NA>"):
        return ""
    raise FormatError(f"{HELD}: {name!r} is of type {type(value).__name__}; a sequence is text")


def _of_table(table: Any, noun: str, column: str) -> tuple[list[Any], list[Any]]:
    if column not in table.columns:
        others = [name for name in table.columns if str(name).lower() == column.lower()]
        others = others or [name for name in table.columns if name not in ID_COLUMNS]
        if len(others) != 1:
            raise FormatError(f"{HELD}: the table has no column {column!r}")
        (column,) = others
    naming = [table[name] for name in ID_COLUMNS if name in table.columns]
    if not naming and table.index.name is None and table.index.dtype.kind in "iu":
        naming = [values for name, values in table.items() if name != column and _are_names(values)]
    if not naming and type(table.index).__name__ == "RangeIndex":
        naming = [[f"{noun}_{number}" for number in range(1, len(table) + 1)]]
    return list(naming[0] if naming else table.index), list(table[column])


def _are_names(column: Any) -> bool:
    """Whether the values are words, each another."""
    return bool(column.is_unique) and all(isinstance(each, str) and len(each.split()) == 1 for each in column)


def _codes(inputs: Any) -> NDArray[np.uint8] | None:
    """The codes (N, L) that an array of codes or a one-hot array stands for; None for what is no array of numbers.

    Raises: FormatError for other codes or shapes, and for a one-hot array whose axes cannot be told apart.
    """
    if hasattr(inputs, "detach"):
        inputs = inputs.detach().cpu()
        inputs = (inputs.float() if inputs.is_floating_point() else inputs).numpy()
    if not isinstance(inputs, np.ndarray) or inputs.dtype.kind not in "iufb":
        return None
    # One sequence as one-hot; as codes it were four, or all of four bases, with a single C among A.
    if inputs.ndim == 2 and any(
        size == 4 and (inputs.sum(axis) == 1).all() for axis, size in enumerate(inputs.shape)
    ):
        inputs = inputs[None]
    if inputs.ndim == 3:
        axes = [axis for axis in (1, 2) if inputs.shape[axis] == 4]
        if len(axes) != 1:
            why = "either axis can be that of the bases" if axes else "no axis has four bases"
            raise FormatError(
                f"{HELD}: a one-hot array of shape {inputs.shape}: {why}; give (N, 4, L) or (N, L, 4)"
            )
        one_hot_NLA = np.moveaxis(inputs, axes[0], 2)
        total_NL = one_hot_NLA.sum(-1)
        if not np.isin(one_hot_NLA, (0, 1)).all() or not np.isin(total_NL, (0, 1)).all():
            raise FormatError(f"{HELD}: a one-hot array has a single 1 at each position, or 0 alone for N")
        codes_NL = np.where(total_NL == 0, UNKNOWN, one_hot_NLA.argmax(-1)).astype(np.uint8)
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
    return codes_NL


@dataclass(frozen=True)
class Source:
    """Samples in memory. A batch of them is a part."""

    items: Any
    samples: Samples

    @property
    def num_samples(self) -> int:
        return len(self.items)

    def part(self, rows: Rows) -> Self:
        """Some samples alone."""
        return replace(self, items=taken(self.items, rows), samples=self.samples.part(rows))

    def batches(self, size: int) -> Iterator[Self]:
        """All samples in order, `size` at a time; the last batch may be smaller."""
        for first in range(0, self.num_samples, size):
            yield self.part(slice(first, first + size))
