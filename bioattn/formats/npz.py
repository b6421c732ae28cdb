"""NumPy `.npz` archives read and written one array at a time, without pickles.

`np.load` would do for small files; here shapes are known before any array is read, at most one array is in memory,
and what is wrong with a member is said by its name.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output, unreadable

ARCHIVE_DAMAGE = (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError)
"""What opening a damaged zip archive raises: of its directory, an unknown version, names that are no UTF-8."""
_MEMBER_DAMAGE = (*ARCHIVE_DAMAGE, zlib.error, EOFError, SyntaxError, TypeError, KeyError, RuntimeError)
_SUFFIX = ".npy"
_LARGEST_HEADER = 1 << 16
_HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_MOST_TIMES = 1100
"""Deflate packs 1,032 bytes into one at most."""


class NpzArrays:
    """The arrays of real numbers of an open `.npz`.

    Raises: FormatError when it is no zip archive, a member is no array, an array holds pickled objects, or the
    sizes that members claim cannot be.
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
            self.shapes = {
                member.filename.removesuffix(_SUFFIX): self._shape(member)
                for member in self._archive.infolist()
            }
            """Shapes by name, in the file's order."""
        except BaseException:
            self._archive.close()
            raise

    def read(self, name: str) -> NDArray[np.float32]:
        """One array as float32. Raises: FormatError naming it when it is damaged or holds no real numbers."""
        with self._damage(name), self._archive.open(name + _SUFFIX) as member:
            array: NDArray[Any] = npy.read_array(member, allow_pickle=False)
            member.read(1)  # the check sum is compared at the end
        if array.dtype.kind != "f":
            raise FormatError(
                f"{self.path}: the array {name} has type {array.dtype}, real numbers are needed"
            )
        return array.astype(np.float32, copy=False)

    def close(self) -> None:
        self._archive.close()

    def _shape(self, member: zipfile.ZipInfo) -> tuple[int, ...]:
        """The shape of a member. Raises: FormatError when its sizes are not those of the array in its header."""
        name = member.filename.removesuffix(_SUFFIX)
        if name == member.filename:
            raise FormatError(f"{self.path}: holds {name}, which is no NumPy array; an .npz is needed")
        if member.file_size > _MOST_TIMES * member.compress_size + _LARGEST_HEADER:
            raise FormatError(
                f"{self.path}: the array {name} claims to be {member.file_size:,} bytes packed into "
                f"{member.compress_size:,}, more than deflate can; fetch the file again"
            )
        with self._damage(name), self._archive.open(member) as file:
            shape, _, dtype = _HEADER_READERS[npy.read_magic(file)](file)
            size = file.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
            if dtype.hasobject:
                raise ValueError("it holds pickled Python objects, which are never unpickled here")
            if size != member.file_size or min(shape, default=0) < 0:
                raise ValueError(f"its header speaks of {size:,} bytes, there are {member.file_size:,}")
        return shape

    @contextmanager
    def _damage(self, name: str) -> Iterator[None]:
        try:
            yield
        except _MEMBER_DAMAGE as error:
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
