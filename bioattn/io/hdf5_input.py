"""Opening HDF5: sizes are held against the file before memory is taken, and damage becomes one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import unreadable
from bioattn.text import human_bytes

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Tell whether a file starts like HDF5 (a truncated one does too)."""
    try:
        with path.open("rb") as file:
            return file.read(len(HDF5_MAGIC)) == HDF5_MAGIC
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def open_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open for reading; what HDF5 raises on damaged content, here or in the body, becomes a FormatError.

    Raises: BioattnError when the file cannot be opened; FormatError when it is not HDF5, is damaged, or has an
    array that claims far more than is stored.
    """
    if not is_hdf5(path):
        raise FormatError(f"{path}: not an HDF5 file")
    with damage_named(path), h5py.File(path, "r") as file:
        _check_sizes(path, file)
        yield file


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn the errors HDF5 and h5py raise on damaged or foreign content into one sentence about `path`."""
    try:
        yield
    except BioattnError:
        raise
    except (
        OSError,
        RuntimeError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
    ) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system refuses, whatever the content
            raise unreadable(path, error) from error
        reason = " ".join(str(error.args[0] if error.args else error).split()).rstrip(".")
        if "truncated file" in reason or "bad object header version" in reason:
            advice = "it is cut short or damaged; copy it or make it again"
        elif any(word in reason for word in ("checksum", "Fletcher32", "filter returned failure")):
            advice = "a checksum does not match, so the file is damaged; copy it or make it again"
        else:
            advice = "it is damaged or not of the expected form; copy it or make it again"
        raise FormatError(f"{path}: cannot be read as HDF5: {advice} ({reason})") from error


def text_attribute(holder: h5py.HLObject, name: str) -> str | None:
    """A string attribute, or None when it is absent or not a string."""
    value = holder.attrs.get(name)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def strings(dataset: h5py.Dataset, selection: Any = ()) -> list[str]:
    """Text of a one-dimensional string dataset.

    Raises: TypeError (inside `damage_named` a FormatError) when the dataset does not hold strings.
    """
    if h5py.check_string_dtype(dataset.dtype) is None:
        raise TypeError(f"{dataset.name} holds {dataset.dtype}, not text")
    return [str(text) for text in dataset.asstr()[selection]]


def other_format(path: Path, kind: str, stored: object, needed: str, advice: str = "") -> FormatError:
    """The error for HDF5 that holds something else.

    kind: what is needed, after `is no`. stored: the attribute `format`. advice: how to get what is needed.
    """
    says = f"its format is {stored!r}" if stored else "it has no 'format' attribute"
    return FormatError(
        f"{path}: is no {kind} ({says}, {needed!r} is needed){f'; {advice}' if advice else ''}"
    )


MOST_PACKED = 64
"""How many times its stored bytes an array may claim, beyond `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 1 << 30


def _check_sizes(path: Path, group: h5py.Group) -> None:
    """Raises: FormatError for an array that claims many times what is stored, which would take all memory."""
    for name in group:
        item = group[name]
        if isinstance(item, h5py.Group):
            _check_sizes(path, item)
        elif isinstance(item, h5py.Dataset):
            claimed = int(item.size or 0) * item.dtype.itemsize
            stored = item.id.get_storage_size()
            if claimed > MOST_PACKED * stored + ALWAYS_ALLOWED:
                raise FormatError(
                    f"{path}: {item.name} claims an impossible shape {item.shape} ({human_bytes(claimed)}, of "
                    f"which {human_bytes(stored)} are stored); make the file again"
                )
