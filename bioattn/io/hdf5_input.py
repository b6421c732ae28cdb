"""Opening HDF5 of unknown origin: a seal is compared before the library sees the file, only what lies in the file
itself is read, and damage becomes one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import unreadable
from bioattn.io.seal import check_seal
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
def open_hdf5(path: Path, *, sealed: bool = False) -> Iterator[h5py.File]:
    """Open for reading; what HDF5 raises on damaged content, here or in the body, becomes a FormatError.

    A file without a seal, which another program has changed or copied, is read, and `validate` warns of it.
    sealed: refuse it, as it is a part of a run, whose whole must have the bytes of the run.

    Raises: BioattnError when the file cannot be opened; FormatError when it is not HDF5, is damaged, differs from
    its seal, or is not self-contained (`require_self_contained`).
    """
    if not is_hdf5(path):
        raise FormatError(f"{path}: not an HDF5 file")
    if not check_seal(path) and sealed:
        raise FormatError(
            f"{path}: has no seal, so it was changed after it was written; copy it or make it again"
        )
    with damage_named(path), h5py.File(path, "r") as file:
        require_self_contained(path, file)
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
        elif "checksum" in reason or "Fletcher32" in reason:
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


KNOWN_FILTERS = {
    h5py.h5z.FILTER_FLETCHER32: "fletcher32",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_DEFLATE: "gzip",
}
"""Filters every HDF5 build has; any other would make the library look for a plug-in to load."""
MOST_PACKED = 64
"""How many times its stored bytes an array may claim, beyond `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 1 << 30


def require_self_contained(path: Path, file: h5py.File) -> None:
    """Refuse soft and external links, virtual and external storage, unknown filters and impossible sizes.

    The first three would let a file make its reader open other files or load plug-ins; an array that claims many
    times what is stored would take all memory.

    Raises: FormatError naming the first such object.
    """
    pending: list[h5py.Group] = [file]
    seen: set[Any] = set()
    while pending:
        group = pending.pop()
        for name in group:
            where = f"{group.name.rstrip('/')}/{name}"
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise FormatError(
                    f"{path}: {where} is a link to elsewhere; only data in the file itself is read"
                )
            item = group[name]
            if isinstance(item, h5py.Group):
                # Hard links can make cycles; the object's address tells groups apart.
                address = h5py.h5o.get_info(item.id).addr
                if address not in seen:
                    seen.add(address)
                    pending.append(item)
            elif isinstance(item, h5py.Dataset):
                _require_plain_storage(path, where, item)
            else:
                raise FormatError(f"{path}: {where} is neither a group nor a dataset")


def _require_plain_storage(path: Path, where: str, dataset: h5py.Dataset) -> None:
    if dataset.is_virtual or dataset.external:
        raise FormatError(
            f"{path}: {where} keeps its data in another file; only data in the file itself is read"
        )
    filters = dataset.id.get_create_plist()
    for index in range(filters.get_nfilters()):
        code = filters.get_filter(index)[0]
        if code not in KNOWN_FILTERS:
            known = ", ".join(KNOWN_FILTERS.values())
            raise FormatError(f"{path}: {where} uses HDF5 filter {code}; only {known} are read")
    claimed = int(dataset.size or 0) * dataset.dtype.itemsize
    stored = dataset.id.get_storage_size()
    if claimed > MOST_PACKED * stored + ALWAYS_ALLOWED:
        raise FormatError(
            f"{path}: {where} claims an impossible shape {dataset.shape} ({human_bytes(claimed)}, of which "
            f"{human_bytes(stored)} are stored); make the file again"
        )
