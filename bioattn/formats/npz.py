"""NumPy `.npz` archives read and written one array at a time, without pickles.

`np.load` would do for small files; here shapes are known before anything is read, at most one array is in memory,
and what is wrong with a member is said by its name.
"""

import ast
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output, unreadable

ARCHIVE_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError)
"""What opening a damaged zip archive raises: of its directory, an unknown version, names that are no UTF-8."""
_SUFFIX = ".npy"
_LARGEST_HEADER = 1 << 16
_MOST_TIMES = 1100
"""Deflate packs 1,032 bytes into one at most."""


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool


class NpzFile:
    """An open `.npz`; a context manager.

    Raises: FormatError when it is no zip archive, a member is no array, or an array holds pickled objects.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except ARCHIVE_DAMAGE as error:
            raise FormatError(f"{path}: not an .npz archive, or damaged ({error})") from error
        except OSError as error:
            raise unreadable(path, error) from error
        try:
            self.arrays = {
                member.filename.removesuffix(_SUFFIX): self._header(member)
                for member in self._archive.infolist()
            }
            """Headers by name, in the file's order."""
            if len(self._archive.infolist()) != len(self.arrays):
                raise FormatError(f"{path}: an array stands in it twice; the archive is damaged")
        except BaseException:
            self._archive.close()
            raise

    def read(self, name: str) -> NDArray[Any]:
        """One array. Raises: FormatError naming it when its bytes are damaged."""
        info = self.arrays[name]
        with self._damage(name), self._archive.open(name + _SUFFIX) as member:
            _read_header(member)
            # Into memory of the right size at once: `member.read()` would hold the bytes beside the array.
            flat = np.empty(int(np.prod(info.shape, dtype=np.int64)), dtype=info.dtype)
            view = flat.data.cast("B") if flat.size else memoryview(b"")
            done = 0
            while done < len(view):
                got = member.readinto(view[done:])  # type: ignore[attr-defined]
                if not got:
                    raise EOFError("ends early")
                done += got
            if member.read(1):
                raise ValueError("bytes are left over after the array")
        return flat.reshape(info.shape, order="F" if info.fortran_order else "C")

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _header(self, member: zipfile.ZipInfo) -> ArrayInfo:
        name = member.filename.removesuffix(_SUFFIX)
        if name == member.filename:
            raise FormatError(f"{self.path}: holds {name}, which is no NumPy array; an .npz is needed")
        with self._damage(name), self._archive.open(member) as file:
            info, header_size = _read_header(file)
        if info.dtype.hasobject:
            raise FormatError(
                f"{self.path}: the array {name} holds pickled Python objects, which are never unpickled here; "
                "save it as plain numbers"
            )
        if member.file_size > _MOST_TIMES * member.compress_size + _LARGEST_HEADER:
            raise FormatError(
                f"{self.path}: the array {name} claims to be {member.file_size:,} bytes packed into "
                f"{member.compress_size:,}, more than deflate can; fetch the file again"
            )
        size = header_size + int(np.prod(info.shape, dtype=object)) * info.dtype.itemsize
        if size != member.file_size:
            raise FormatError(
                f"{self.path}: the array {name} is damaged (its header speaks of {size:,} bytes, there are "
                f"{member.file_size:,})"
            )
        return info

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            SyntaxError,
            TypeError,
            KeyError,
            struct.error,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise FormatError(
                f"{self.path}: the array {name} is damaged ({error}); fetch the file again"
            ) from error
        except OSError as error:
            raise unreadable(self.path, error) from error


class NpzWriter:
    """Adds arrays to an `.npz` one by one; made by `npz_output`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Store one array, uncompressed, with a fixed date so that bytes repeat."""
        with self._archive.open(zipfile.ZipInfo(name + _SUFFIX), "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    def write_blocks(
        self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], blocks: Iterable[NDArray[Any]]
    ) -> None:
        """Store one array that comes in pieces along its first axis, which need never be in memory together.

        Raises: RuntimeError when the pieces are not the whole (a bug of the caller).
        """
        with self._archive.open(zipfile.ZipInfo(name + _SUFFIX), "w", force_zip64=True) as member:
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            written = 0
            for block in blocks:
                member.write(np.ascontiguousarray(block, dtype=dtype).data)
                written += len(block)
        if written != shape[0]:
            raise RuntimeError(f"{written} of {shape[0]} rows were written")


@contextmanager
def npz_output(path: Path) -> Iterator[NpzWriter]:
    """Write an `.npz` whole or not at all. Raises: BioattnError when it cannot be written."""
    with atomic_output(path) as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
        yield NpzWriter(archive)


def _read_header(file: Any) -> tuple[ArrayInfo, int]:
    """Header of the .npy format, versions 1 to 3, and its length; only literals are evaluated."""
    magic = file.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
        raise ValueError("no .npy header")
    width, code = (2, "<H") if magic[6] == 1 else (4, "<I")
    (length,) = struct.unpack(code, file.read(width))
    if length > _LARGEST_HEADER:
        raise ValueError("its header is impossibly long")
    content = ast.literal_eval(file.read(length).decode("utf-8" if magic[6] == 3 else "latin-1"))
    shape = content["shape"]
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"its shape {shape!r} is none")
    dtype = np.dtype(content["descr"])
    return ArrayInfo(shape, dtype, bool(content["fortran_order"])), 8 + width + length
