"""Writing HDF5 whole or not at all, with a seal at its end: the SHA-256 of its bytes.

The HDF5 library trusts the disk and the file: a full disk, or one flipped bit in its own structures, can end the
process with a segmentation fault, which no `except` catches. So what is written gets a seal, which is compared
before the library sees the file. It stands behind the end that HDF5 knows of, where every HDF5 reader ignores it,
and lists where each array's bytes lie, so that damage can be named. Whoever edits the file with HDF5 tools drops
the seal; a file without one is not refused.

    <HDF5 bytes>
    <JSON: {"/array": {"extents": [[offset, size], …], "sha256": …}, …}>
    <length of the JSON, 8 hex digits> <SHA-256 of all before this line, 64 hex digits> bioattn-seal

Files that can be larger than memory are read in parts, so to compare all of them first would cost more than to
read what is wanted. Their large arrays, whose chunks carry checksums that the library verifies as it reads them,
have no `sha256` in the list and are left out of the SHA-256 of the last line: the *structure* is sealed.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

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


def write_sealed(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Make an HDF5 file in memory, let `fill` write into it, seal it and put it on the disk in one go.

    For files that fit in memory. Raises: BioattnError when the file cannot be written; then nothing is left.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("earliest", "v110")) as file:
        fill(file)
    content = image.getvalue()
    with atomic_output(path) as temporary, temporary.open("w+b") as raw:
        raw.write(content)
        _seal(raw, io.BytesIO(content), structure_only=False)


@contextmanager
def stream_sealed(path: Path) -> Iterator[h5py.File]:
    """Make an HDF5 file on the disk, seal it and give it its name when the body has ended well.

    For files that may not fit in memory; `write_sealed` for the others. Raises: BioattnError when the file cannot
    be written; then nothing is left.
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

    Raises: FormatError naming the arrays whose bytes changed, or else the structure around them.
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
            index = _read_index(raw, size, footer)
            if index is not None:
                digest = _digest(raw, size - _FOOTER_SIZE, _left_out(index, size))
                if footer == _footer(int(footer[:8], 16), digest):
                    return True
            changed = [] if index is None else _changed_arrays(raw, index)
    except OSError as error:
        raise unreadable(path, error) from error
    what = "its HDF5 structure or its seal" if not changed else "the array " + " and ".join(changed)
    raise FormatError(
        f"{path}: {what} changed after the file was written (SHA-256 differs); make or fetch the file again"
    )


def _hdf5_end(raw: BinaryIO) -> int | None:
    """Where a file ends by its HDF5 superblock, as HDF5 programs leave it; None when it has none."""
    raw.seek(0)
    start = raw.read(_SUPERBLOCK)
    if len(start) < _SUPERBLOCK or not start.startswith(b"\x89HDF\r\n\x1a\n") or start[8] > 3:
        return None
    widths, place = (start[13], {0: 40, 1: 44}[start[8]]) if start[8] < 2 else (start[9], 28)
    return int.from_bytes(start[place : place + 8], "little") if widths == 8 else None


def _seal(raw: BinaryIO, source: BinaryIO | Path, *, structure_only: bool) -> None:
    """Append the seal to `raw`, whose HDF5 content `source` is.

    The list of arrays is written as it is made: a file over a thousand alignments has a hundred thousand.
    """
    size = end = raw.seek(0, os.SEEK_END)
    left_out: Extents = []

    def put(text: bytes) -> None:
        nonlocal end
        raw.seek(end)
        end += raw.write(text)

    with h5py.File(source, "r") as file:
        limit_metadata_cache(file)
        for array in _arrays(file):
            extents = _extents(array)
            entry: dict[str, Any] = {"extents": extents}
            if structure_only and _checks_itself(array):
                left_out.extend(extents)
            else:
                entry["sha256"] = _digest_of(raw, extents)
            text = json.dumps({array.name: entry}, separators=(",", ":"))
            put(("{" if end == size else ",").encode() + text[1:-1].encode())
    put(b"{}" if end == size else b"}")
    raw.flush()
    digest = _digest(raw, end, _joined(left_out))
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


def _extents(node: h5py.Dataset) -> Extents:
    """Where the raw bytes of a dataset lie."""
    pieces: Extents = []
    if node.chunks is not None:

        def add(chunk: Any) -> None:
            pieces.append((int(chunk.byte_offset), int(chunk.size)))

        node.id.chunk_iter(add)
    elif (offset := node.id.get_offset()) is not None:
        pieces.append((int(offset), int(node.id.get_storage_size())))
    return _joined(pieces)


def _joined(pieces: Iterable[tuple[int, int]]) -> Extents:
    """Pieces in order, those that touch or overlap made one."""
    joined: Extents = []
    for offset, size in sorted(pieces):
        if joined and offset <= joined[-1][0] + joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], offset + size - joined[-1][0])
        else:
            joined.append((offset, size))
    return joined


def _left_out(index: dict[str, Any], end: int) -> Extents:
    """What a seal does not cover, within the first `end` bytes."""
    return _joined(
        (offset, size)
        for entry in index.values()
        if "sha256" not in entry
        for offset, size in entry["extents"]
        if 0 <= offset <= offset + size <= end
    )


def _digest(raw: BinaryIO, end: int, left_out: Extents) -> str:
    """SHA-256 of the first `end` bytes without those that are left out."""
    digest = hashlib.sha256()
    start = 0
    for offset, size in [*left_out, (end, 0)]:
        _update(digest, raw, start, offset - start)
        start = offset + size
    return digest.hexdigest()


def _digest_of(raw: BinaryIO, extents: Extents) -> str:
    """SHA-256 of some pieces."""
    digest = hashlib.sha256()
    for offset, size in extents:
        _update(digest, raw, offset, size)
    return digest.hexdigest()


def _update(digest: Any, raw: BinaryIO, offset: int, size: int) -> None:
    raw.seek(offset)
    while size > 0 and (block := raw.read(min(_BLOCK, size))):
        digest.update(block)
        size -= len(block)


def _read_index(raw: BinaryIO, size: int, footer: bytes) -> dict[str, Any] | None:
    """The list of arrays in the seal; None when it is damaged."""
    try:
        length = int(footer[:8], 16)
        raw.seek(max(0, size - _FOOTER_SIZE - length))
        index = parse_json(raw.read(length), "the seal")
        for entry in index.values():
            for offset, piece in entry["extents"]:
                if type(offset) is not int or type(piece) is not int:
                    return None
    except (ValueError, TypeError, KeyError, AttributeError, FormatError):
        return None
    return cast(dict[str, Any], index)


def _changed_arrays(raw: BinaryIO, index: dict[str, Any]) -> list[str]:
    """Names of the arrays whose bytes differ from the seal."""
    try:
        return [
            name
            for name, entry in index.items()
            if "sha256" in entry and _digest_of(raw, entry["extents"]) != entry["sha256"]
        ]
    except (OSError, OverflowError, ValueError):
        return []
