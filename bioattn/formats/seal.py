"""Writing HDF5 whole or not at all, with a seal at its end: the SHA-256 of all its bytes.

The HDF5 library trusts the disk and the file: a full disk, or one flipped bit in its own structures, can end the
process with a segmentation fault, which no `except` catches. So files are made in memory and written by us, and
the seal is compared before the library sees a file. It stands behind the end that HDF5 knows of, where every HDF5
reader ignores it, and lists where each array's bytes lie, so that damage can be named. Whoever edits the file with
HDF5 tools drops the seal; a file without one is not refused.

    <HDF5 bytes>
    <JSON: {"/array": {"extents": [[offset, size], …], "sha256": …}, …}>
    <length of the JSON, 8 hex digits> <SHA-256 of all before this line, 64 hex digits> bioattn-seal
"""

import hashlib
import io
import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from bioattn.errors import FormatError
from bioattn.files import atomic_output, unreadable
from bioattn.formats.hdf5_output import hdf5_output

_MARK = b" bioattn-seal\n"
_FOOTER_SIZE = 8 + 1 + 64 + len(_MARK)
_BLOCK = 1 << 20


def write_sealed(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Make an HDF5 file in memory, let `fill` write into it, seal it and put it on the disk in one go.

    For files that fit in memory. Raises: BioattnError when the file cannot be written; then nothing is left.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", libver=("earliest", "v110")) as file:
        fill(file)
    content = image.getvalue()
    with h5py.File(image, "r") as file:
        index = _index(file, content)
    whole = hashlib.sha256(content)
    whole.update(index)
    with atomic_output(path) as temporary, temporary.open("wb") as raw:
        raw.write(content)
        raw.write(index)
        raw.write(b"%08x %s%s" % (len(index), whole.hexdigest().encode(), _MARK))


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
        with (
            temporary.open("r+b") as raw_file,
            mmap.mmap(raw_file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            with h5py.File(temporary, "r") as file:
                index = _index(file, content)
            whole = hashlib.sha256()
            for start in range(0, len(content), _BLOCK):
                whole.update(content[start : start + _BLOCK])
            whole.update(index)
            raw_file.seek(0, 2)
            raw_file.write(index)
            raw_file.write(b"%08x %s%s" % (len(index), whole.hexdigest().encode(), _MARK))


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


def _index(file: h5py.File, content: bytes | mmap.mmap) -> bytes:
    """JSON that says where each array's bytes are in `content`, and their digest."""
    arrays: dict[str, dict[str, object]] = {}

    def note(name: str, node: h5py.Group | h5py.Dataset) -> None:
        if isinstance(node, h5py.Dataset):
            pieces = _extents(node)
            digest = hashlib.sha256()
            for offset, size in pieces:
                digest.update(content[offset : offset + size])
            arrays["/" + name] = {"extents": pieces, "sha256": digest.hexdigest()}

    file.visititems(note)
    return json.dumps(arrays, separators=(",", ":")).encode()


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
