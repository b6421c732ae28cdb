"""HDF5: damage is noticed when it is read and becomes one sentence, and a full disk is an ordinary error.

Reading holds sizes against the file before memory is taken. Structures written are those of HDF5 1.10, whose
headers and indexes carry checksums; every array lies in chunks with Fletcher32; text has a fixed length, as text
of variable length lies in heaps without checksums.

When a write fails inside the HDF5 library, closing the file fails too and the library brings the whole process
down as it exits (seen with HDF5 2.0: SIGSEGV, exit code 139). Here the library writes through a file object that,
after the first failure, takes every further write without storing it; the library closes in peace, and the
failure is raised by us.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import atomic_output, first_bytes, unreadable
from bioattn.text import human_bytes

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Tell whether a file starts like HDF5 (a truncated one does too)."""
    return first_bytes(path, len(HDF5_MAGIC)) == HDF5_MAGIC


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


def strings(dataset: h5py.Dataset) -> list[str]:
    """Text of a one-dimensional string dataset.

    Raises: TypeError (inside `damage_named` a FormatError) when the dataset does not hold strings.
    """
    if h5py.check_string_dtype(dataset.dtype) is None:
        raise TypeError(f"{dataset.name} holds {dataset.dtype}, not text")
    return [str(text) for text in dataset.asstr()[()]]


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


LIBRARY_VERSIONS = ("v110", "v110")
"""HDF5 1.10's structures: netCDF-4, rhdf5 and MATLAB read them; those of `latest` older readers do not."""
CHUNK_BYTES = 1 << 22

_ROOM_BYTES = 4 << 20
"""Memory that must be free when a file is created: without it the library may crash and not raise an error."""
_METADATA_CACHE_BYTES = 1 << 18
_CHUNK_CACHE_BYTES, _CHUNK_CACHE_SLOTS = 1 << 24, 4001
"""Of an array that is being written, chunks that wait for the rest of their values; several samples share one."""


class ShieldedFile(io.FileIO):
    """A binary file for the HDF5 library: never raises on writing, remembers the first failure in `error`."""

    error: OSError | None = None

    def check(self) -> None:
        """Raises: OSError when a write has failed."""
        if self.error is not None:
            raise self.error

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer; what was not stored reads as zeros."""
        view = memoryview(buffer).cast("B")
        number = super().readinto(view) or 0
        view[number:] = bytes(len(view) - number)
        return len(view)

    def write(self, buffer: Any, /) -> int:
        """Write the whole buffer, or keep the error."""
        view = memoryview(buffer).cast("B")
        done = 0
        try:
            while self.error is None and done < len(view):
                done += super().write(view[done:])
        except OSError as error:
            self.error = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the length, or keep the error."""
        try:
            if self.error is None:
                return super().truncate(size)
        except OSError as error:
            self.error = error
        return size or 0


@contextmanager
def hdf5_file(path: Path) -> Iterator[h5py.File]:
    """Write an HDF5 file, which gets its name when the body has ended well.

    Raises: BioattnError when it cannot be written; then nothing is left.
    """
    with atomic_output(path) as temporary, hdf5_output(temporary) as (file, raw):
        yield file
        raw.check()


@contextmanager
def hdf5_output(path: Path, *, new: bool = True) -> Iterator[tuple[h5py.File, ShieldedFile]]:
    """Create `path` as HDF5; new: False goes on with a file that is there.

    Call the second object's `check` now and then, so that a full disk ends long work early.

    Raises: OSError (as of any file) when it cannot be written, also when the body raised because of that;
    MemoryError when a few MB are not free.
    """
    with ShieldedFile(path, "w+" if new else "r+") as raw:
        bytearray(_ROOM_BYTES)
        try:
            cache = {"rdcc_nbytes": _CHUNK_CACHE_BYTES, "rdcc_nslots": _CHUNK_CACHE_SLOTS}
            with h5py.File(raw, "w" if new else "r+", libver=LIBRARY_VERSIONS, **cache) as file:
                # By default the library keeps 2 to 32 MB of the file's structures, which take ten times that in
                # memory. A file over a thousand alignments has a hundred thousand, and none is needed twice.
                config = file.id.get_mdc_config()
                config.min_size = config.max_size = config.initial_size = _METADATA_CACHE_BYTES
                config.set_initial_size = True
                file.id.set_mdc_config(config)
                yield file, raw
        except Exception:
            raw.check()
            raise
        raw.check()


def create_array(
    group: h5py.Group, name: str, shape: Sequence[int], dtype: Any, *, chunks: Sequence[int] | None = None
) -> h5py.Dataset:
    """Create an array in chunks with checksums.

    shape: of one axis or more. chunks: None = the whole array, or rows of it.
    """
    dtype = np.dtype(dtype)
    if chunks is None:
        row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        chunks = (max(1, min(shape[0], CHUNK_BYTES // max(1, row))), *(max(1, size) for size in shape[1:]))
    # A chunk may not be larger than the array, which may have no rows, unless the array can grow.
    limit = tuple(max(size, part) for size, part in zip(shape, chunks, strict=True))
    return group.create_dataset(
        name, tuple(shape), dtype, chunks=tuple(chunks), maxshape=limit, fletcher32=True, track_times=False
    )


def put_array(group: h5py.Group, name: str, values: NDArray[Any] | Sequence[Any]) -> h5py.Dataset:
    """Store an array of one axis or more, or (nested) lists of strings, in chunks with checksums."""
    if not isinstance(values, np.ndarray) or values.dtype.kind == "U":
        values = fixed_text(values)
    dataset = create_array(group, name, values.shape, values.dtype)
    if values.size:
        dataset[...] = values
    return dataset


def fixed_text(texts: Sequence[Any] | NDArray[Any]) -> NDArray[np.bytes_]:
    """(Nested) strings as an array of UTF-8 bytes, all of the length of the longest."""
    encoded = np.char.encode(np.array(texts, dtype=np.str_), "utf-8")
    return encoded.astype(h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize)))


def set_attribute(holder: h5py.HLObject, name: str, value: Any) -> None:
    """Set an attribute: text and sequences of text as UTF-8 of a fixed length, a truth value as int8, a tuple of
    numbers as int32 or float64."""
    if isinstance(value, str):
        encoded = value.encode("utf-8")
        holder.attrs.create(name, encoded, dtype=h5py.string_dtype("utf-8", max(1, len(encoded))))
    elif isinstance(value, Sequence) and all(isinstance(text, str) for text in value):
        texts = fixed_text(value)
        holder.attrs.create(name, texts, shape=texts.shape, dtype=texts.dtype)
    elif isinstance(value, tuple):
        real = any(isinstance(number, float) for number in value)
        holder.attrs[name] = np.asarray(value, dtype=np.float64 if real else np.int32)
    else:
        holder.attrs[name] = np.int8(value) if isinstance(value, bool) else value
