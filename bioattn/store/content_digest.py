"""One digest that stands for everything an HDF5 file of ours says, however its bytes are laid out."""

import hashlib
import heapq
import json
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

CONTENT_DIGEST = "content_sha256"
_LAYOUT_ATTRIBUTES = frozenset(
    {"CLASS", "NAME", "DIMENSION_LIST", "DIMENSION_LABELS", "REFERENCE_LIST", CONTENT_DIGEST}
)


def content_digest(file: h5py.File) -> str:
    """SHA-256 over canonical JSON of every object's path, shape, dtype and attributes.

    The attributes of datasets hold the SHA-256 of their values, so values are covered without being read.
    """
    digest = hashlib.sha256(b"{")
    for number, (path, item) in enumerate(_objects(file)):
        text = ("," if number else "") + _json(path) + ":" + _json(_describe(item))
        digest.update(text.encode("utf-8", "surrogateescape"))
    digest.update(b"}")
    return digest.hexdigest()


def _objects(file: h5py.File) -> Iterator[tuple[str, h5py.HLObject]]:
    """Every object with its path, in the order of paths.

    Hard links alone are followed, and no group is entered twice. A file over many alignments has a million
    objects, so no more is remembered than what lies next to the path.
    """
    pending, opened = ["/"], set()
    while pending:
        path = heapq.heappop(pending)
        item = file[path]
        yield path, item
        if not isinstance(item, h5py.Group):
            continue
        address = h5py.h5o.get_info(item.id).addr
        if address not in opened:
            opened.add(address)
            inside = "" if path == "/" else path
            for name in item:
                if isinstance(item.get(name, getlink=True), h5py.HardLink):
                    heapq.heappush(pending, f"{inside}/{name}")


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _describe(item: h5py.HLObject) -> dict[str, Any]:
    described: dict[str, Any] = {
        "attributes": {
            name: _plain(value) for name, value in item.attrs.items() if name not in _LAYOUT_ATTRIBUTES
        }
    }
    if isinstance(item, h5py.Dataset):
        text = h5py.check_string_dtype(item.dtype) is not None
        described["shape"] = list(item.shape)
        described["dtype"] = "text" if text else item.dtype.newbyteorder("<").str
    return described


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str | int | float | bool) else repr(value)
