"""Writing HDF5 so that a full disk is an ordinary error.

When a write fails inside the HDF5 library, closing the file fails too and the library brings the whole process
down as it exits (seen with HDF5 2.0: SIGSEGV, exit code 139). Here the library writes through a file object that,
after the first failure, takes every further write without storing it; the library closes in peace, and the
failure is raised by us.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

LIBRARY_VERSIONS = ("v108", "v108")
"""HDF5 1.8's structures: every HDF5, netCDF-4 and rhdf5 in use reads them, and their headers carry checksums."""

_ROOM_BYTES = 4 << 20
"""Memory that must be free when a file is created: without it the library may crash and not raise an error."""
_METADATA_CACHE_BYTES = 1 << 18
_CACHED_BYTES = 1 << 25
"""Bytes after which the system is asked to write to the disk and forget them: of a file of some GB, memory that
was never used before costs as much processor time as the content."""


class ShieldedFile(io.RawIOBase):
    """A binary file for the HDF5 library: never raises on writing, remembers the first failure in `error`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._position = 0
        self._end = 0
        self._forgotten = 0
        self.error: OSError | None = None

    def check(self) -> None:
        """Raises: OSError when a write has failed."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move the position; the end counts writes that were not stored."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Position of the next read or write."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer; what was not stored reads as zeros."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._end - self._position))
        content = os.pread(self._descriptor, wanted, self._position).ljust(wanted, b"\0")
        view[:wanted] = content
        self._position += wanted
        return wanted

    def write(self, buffer: Any, /) -> int:
        """Write the whole buffer, or keep the error."""
        view = memoryview(buffer).cast("B")
        done = 0
        try:
            while self.error is None and done < len(view):
                done += os.pwrite(self._descriptor, view[done:], self._position + done)
        except OSError as error:
            self.error = error
        self._position += len(view)
        self._end = max(self._end, self._position)
        if self._position - self._forgotten > 2 * _CACHED_BYTES and hasattr(os, "posix_fadvise"):
            # What is on its way to the disk is not forgotten yet, so each stretch is named twice.
            os.posix_fadvise(
                self._descriptor, self._forgotten, self._position - self._forgotten, os.POSIX_FADV_DONTNEED
            )
            self._forgotten = self._position - _CACHED_BYTES
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the length."""
        size = self._position if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self._descriptor, size)
        except OSError as error:
            self.error = error
        self._end = size
        return size

    def sync(self) -> None:
        """Flush the bytes to the disk."""
        try:
            if self.error is None:
                os.fsync(self._descriptor)
        except OSError as error:
            self.error = error

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def limit_metadata_cache(file: h5py.File) -> None:
    """Limit the memory that the library uses for the structures of the file.

    By default it keeps 2 to 32 MB as they are in the file, which take ten times that in memory. A file over a
    thousand alignments has a hundred thousand objects, and none is needed twice.
    """
    config = file.id.get_mdc_config()
    config.min_size = config.max_size = config.initial_size = _METADATA_CACHE_BYTES
    config.set_initial_size = True
    file.id.set_mdc_config(config)


@contextmanager
def hdf5_output(
    path: Path, *, chunk_cache_bytes: int | None = None
) -> Iterator[tuple[h5py.File, ShieldedFile]]:
    """Create `path` as HDF5; its bytes are on the disk when the body has ended well.

    chunk_cache_bytes: None = h5py's; 0 = whole chunks go to the file as they are written, in that order.

    Call the second object's `check` now and then, so that a full disk ends long work early.

    Raises: OSError (as of any file) when it cannot be written, also when the body raised because of that;
    MemoryError when a few MB are not free.
    """
    with ShieldedFile(path) as raw:
        bytearray(_ROOM_BYTES)
        try:
            with h5py.File(raw, "w", libver=LIBRARY_VERSIONS, rdcc_nbytes=chunk_cache_bytes) as file:
                limit_metadata_cache(file)
                yield file, raw
        except Exception:
            raw.check()
            raise
        raw.sync()
        raw.check()
