"""One digest that stands for everything an HDF5 file of ours says, however its bytes are laid out."""

import hashlib
import json
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
    objects: dict[str, Any] = {"/": _describe(file)}

    def visit(name: str, item: h5py.HLObject) -> None:
        objects["/" + name] = _describe(item)

    file.visititems(visit)
    text = json.dumps(objects, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


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
