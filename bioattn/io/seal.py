"""Writing HDF5 whole or not at all, with a seal at its end: the SHA-256 of its bytes.

The HDF5 library trusts the disk and the file: a full disk, or one flipped bit in its own structures, can end the
process with a segmentation fault, which no `except` catches. So what is written gets a seal, which is compared
before the library sees the file. It stands behind the end that HDF5 knows of, where every HDF5 reader ignores it.
Whoever edits the file with HDF5 tools drops the seal; a file without one is not refused.

    <HDF5 bytes>
    <JSON: [[offset, size], …], the pieces of the file that are left out>
    <length of the JSON, 8 hex digits> <SHA-256 of all else before this line, 64 hex digits> bioattn-seal

Files that can be larger than memory are read in parts, so to compare all of them first would cost more than to
read what is wanted. Their large arrays, whose chunks carry checksums that the library verifies as it reads them,
are left out: the *structure* is sealed. Earlier versions listed all arrays instead, `{"/array": {"extents":
[[offset, size], …], "sha256": …}, …}`, those that are left out without `sha256`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output, parse_json, unreadable
from bioattn.io.hdf5_output import ShieldedFile, hdf5_output, limit_metadata_cache

_MARK = b" bioattn-seal\n"
_FOOTER_SIZE = 8 + 1 + 64 + len(_MARK)
_BLOCK = 1 << 20
_SUPERBLOCK = 96
"""Bytes of the largest HDF5 superblock there is."""
_LARGE = 1 << 16
"""Bytes from which arrays with checksums of their own are left out of a seal of the structure."""

Extents = list[tuple[int, int]]
"""(offset, size) of pieces of a file, ascending, apart from each other."""


@contextmanager
def stream_sealed(path: Path) -> Iterator[h5py.File]:
    """Make an HDF5 file on the disk, seal it and give it its name when the body has ended well.

    Raises: BioattnError when the file cannot be written; then nothing is left.
    """
    with atomic_output(path) as temporary:
        with hdf5_output(temporary) as (file, raw):
            yield file
            raw.check()
        with temporary.open("r+b") as file_to_seal:
            _seal(file_to_seal, temporary, structure_only=False)


@contextmanager
def structure_sealed(
    path: Path, *, chunk_cache_bytes: int | None = None
) -> Iterator[tuple[h5py.File, ShieldedFile]]:
    """As `hdf5_output`, and seal the structure of the file when the body has ended well.

    Raises: OSError when it cannot be written.
    """
    with hdf5_output(path, chunk_cache_bytes=chunk_cache_bytes) as opened:
        yield opened
    with path.open("r+b") as raw:
        _seal(raw, path, structure_only=True)
        raw.flush()
        os.fsync(raw.fileno())


def check_seal(path: Path) -> bool:
    """Compare a file with its seal; return False when it never had one.

    Of a file whose structure alone is sealed, the large arrays are not read: HDF5 compares their checksums.

    Raises: FormatError when a byte changed after the file was written, or the seal is cut short.
    """
    try:
        with path.open("rb") as raw:
            size = raw.seek(0, os.SEEK_END)
            raw.seek(max(0, size - _FOOTER_SIZE))
            footer = raw.read()
            if len(footer) < _FOOTER_SIZE or not footer.endswith(_MARK):
                end = _hdf5_end(raw)
                if end is not None and end < size:
                    raise FormatError(
                        f"{path}: its seal is cut short or damaged, so what stands before it may be, too; make or "
                        "fetch the file again"
                    )
                return False
            left_out = _left_out(raw, size, footer)
            if left_out is not None:
                digest = _digest(raw, size - _FOOTER_SIZE, left_out)
                if footer == _footer(int(footer[:8], 16), digest):
                    return True
    except OSError as error:
        raise unreadable(path, error) from error
    raise FormatError(
        f"{path}: changed after the file was written (SHA-256 differs); make or fetch the file again"
    )


def _hdf5_end(raw: BinaryIO) -> int | None:
    """Where a file ends by its HDF5 superblock, as HDF5 programs leave it; None when it has none."""
    raw.seek(0)
    start = raw.read(_SUPERBLOCK)
    if len(start) < _SUPERBLOCK or not start.startswith(b"\x89HDF\r\n\x1a\n") or start[8] > 3:
        return None
    widths, place = (start[13], {0: 40, 1: 44}[start[8]]) if start[8] < 2 else (start[9], 28)
    return int.from_bytes(start[place : place + 8], "little") if widths == 8 else None


def _seal(raw: BinaryIO, path: Path, *, structure_only: bool) -> None:
    """Append the seal to `raw`, the open file `path`."""
    left_out: Extents = []
    if structure_only:
        with h5py.File(path, "r") as file:
            limit_metadata_cache(file)
            left_out = _joined(
                piece for array in _arrays(file) if _checks_itself(array) for piece in _extents(array)
            )
    size = raw.seek(0, os.SEEK_END)
    raw.write(json.dumps(left_out, separators=(",", ":")).encode())
    raw.flush()
    end = raw.tell()
    digest = _digest(raw, end, left_out)
    raw.seek(end)
    raw.write(_footer(end - size, digest))


def _footer(length: int, digest: str) -> bytes:
    """The last line of a seal."""
    return b"%08x %s%s" % (length, digest.encode(), _MARK)


def _arrays(group: h5py.Group) -> Iterator[h5py.Dataset]:
    """All arrays of a file, by name; `visititems` would remember every object it has seen."""
    for name in group:
        item = group[name]
        if isinstance(item, h5py.Group):
            yield from _arrays(item)
        elif isinstance(item, h5py.Dataset):
            yield item


def _checks_itself(node: h5py.Dataset) -> bool:
    """Whether a flipped bit in the array's own bytes is found as it is read, and makes nothing else unreadable."""
    plain = node.dtype.kind in "biuf"
    return bool(
        plain and node.chunks is not None and node.fletcher32 and node.id.get_storage_size() >= _LARGE
    )


def _extents(array: h5py.Dataset) -> Extents:
    """Where the chunks of an array lie."""
    pieces: Extents = []

    def add(chunk: Any) -> None:
        pieces.append((int(chunk.byte_offset), int(chunk.size)))

    array.id.chunk_iter(add)
    return pieces


def _joined(pieces: Iterable[tuple[int, int]]) -> Extents:
    """Pieces in order, those that touch or overlap made one."""
    joined: Extents = []
    for offset, size in sorted(pieces):
        if joined and offset <= joined[-1][0] + joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], offset + size - joined[-1][0])
        else:
            joined.append((offset, size))
    return joined


def _left_out(raw: BinaryIO, size: int, footer: bytes) -> Extents | None:
    """The pieces of a file of `size` bytes that its seal does not cover; None when the list of them is damaged."""
    try:
        width = int(footer[:8], 16)
        raw.seek(max(0, size - _FOOTER_SIZE - width))
        listed = parse_json(raw.read(width), "the seal")
        if isinstance(listed, dict):  # of an earlier version
            listed = [
                piece for entry in listed.values() if "sha256" not in entry for piece in entry["extents"]
            ]
        if any(type(offset) is not int or type(length) is not int for offset, length in listed):
            return None
    except (ValueError, TypeError, KeyError, AttributeError, FormatError):
        return None
    return _joined((offset, length) for offset, length in listed if 0 <= offset <= offset + length <= size)


def _digest(raw: BinaryIO, end: int, left_out: Extents) -> str:
    """SHA-256 of the first `end` bytes without those that are left out."""
    digest = hashlib.sha256()
    start = 0
    for offset, size in [*left_out, (end, 0)]:
        raw.seek(start)
        left = offset - start
        while left > 0 and (block := raw.read(min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
        start = offset + size
    return digest.hexdigest()
