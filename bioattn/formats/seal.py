"""A seal at the end of an HDF5 file: the SHA-256 of all its bytes, checked before the HDF5 library sees the file.

The library trusts what it reads: one flipped bit in its own structures can end the process with a segmentation
fault, which no `except` catches. So files are sealed when complete and the seal is compared first. It is appended
behind the end that HDF5 knows of, where every HDF5 reader ignores it, and lists where each array's bytes lie, so
that damage can be named. A file without a seal (edited or repacked by other tools) is not refused.

    <HDF5 bytes>
    <JSON: {"/array": {"extents": [[offset, size], …], "sha256": …}, …}>
    <length of the JSON, 8 hex digits> <SHA-256 of all before this line, 64 hex digits> bioattn-seal
"""

import hashlib
import json
from pathlib import Path

import h5py

from bioattn.errors import FormatError
from bioattn.files import unreadable

_MARK = b" bioattn-seal\n"
_FOOTER_SIZE = 8 + 1 + 64 + len(_MARK)
_BLOCK = 1 << 20


def seal(path: Path) -> None:
    """Append the seal to a closed HDF5 file.

    Raises: OSError when the file cannot be written (full disk), for the caller's `atomic_output`.
    """
    with h5py.File(path, "r") as file:
        extents: dict[str, list[tuple[int, int]]] = {}

        def note(name: str, node: h5py.Group | h5py.Dataset) -> None:
            if isinstance(node, h5py.Dataset):
                extents["/" + name] = _extents(node)

        file.visititems(note)
    with path.open("r+b") as raw:
        arrays = {}
        for name, pieces in extents.items():
            digest = hashlib.sha256()
            for offset, size in pieces:
                raw.seek(offset)
                digest.update(raw.read(size))
            arrays[name] = {"extents": pieces, "sha256": digest.hexdigest()}
        index = json.dumps(arrays, separators=(",", ":")).encode()
        raw.seek(0, 2)
        raw.write(index)
        raw.seek(0)
        whole = hashlib.sha256()
        while block := raw.read(_BLOCK):
            whole.update(block)
        raw.seek(0, 2)
        raw.write(b"%08x %s%s" % (len(index), whole.hexdigest().encode(), _MARK))


def check_seal(path: Path) -> bool:
    """Compare a file with its seal; False when it has none.

    Raises: FormatError naming the arrays whose bytes changed, or else the structure around them.
    """
    try:
        with path.open("rb") as raw:
            size = raw.seek(0, 2)
            raw.seek(max(0, size - _FOOTER_SIZE))
            footer = raw.read()
            if len(footer) < _FOOTER_SIZE or not footer.endswith(_MARK):
                return False
            raw.seek(0)
            whole, left = hashlib.sha256(), size - _FOOTER_SIZE
            while left > 0:
                block = raw.read(min(_BLOCK, left))
                if not block:
                    break
                whole.update(block)
                left -= len(block)
    except OSError as error:
        raise unreadable(path, error) from error
    if whole.hexdigest().encode() == footer[9:73]:
        return True
    changed = _changed_arrays(path, size, footer)
    what = "its HDF5 structure or its seal" if not changed else "the array " + " and ".join(changed)
    raise FormatError(
        f"{path}: {what} changed after the file was written (SHA-256 differs); make or fetch the file again"
    )


def _extents(node: h5py.Dataset) -> list[tuple[int, int]]:
    """(offset, size) of the pieces of a dataset's raw bytes in the file."""
    if node.chunks is not None:
        chunks = [node.id.get_chunk_info(index) for index in range(node.id.get_num_chunks())]
        return [(int(chunk.byte_offset), int(chunk.size)) for chunk in chunks]
    offset = node.id.get_offset()
    return [] if offset is None else [(int(offset), int(node.id.get_storage_size()))]


def _changed_arrays(path: Path, size: int, footer: bytes) -> list[str]:
    """Names of the arrays whose bytes differ from the seal; empty when the list itself is damaged."""
    changed = []
    try:
        length = int(footer[:8], 16)
        with path.open("rb") as raw:
            raw.seek(size - _FOOTER_SIZE - length)
            index = json.loads(raw.read(length))
            for name, entry in index.items():
                digest = hashlib.sha256()
                for offset, piece in entry["extents"]:
                    raw.seek(offset)
                    digest.update(raw.read(piece))
                if digest.hexdigest() != entry["sha256"]:
                    changed.append(name)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, OverflowError):
        return []
    return changed
