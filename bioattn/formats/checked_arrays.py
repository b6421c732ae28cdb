"""HDF5 arrays that carry the SHA-256 of their content, so that a flipped bit is found and named on reading.

Text is stored as fixed-width UTF-8: its bytes repeat from run to run, and R, Julia and xarray read it without ado.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError

# What h5py and the HDF5 library raise on damaged files; a damaged length can also ask for absurd memory.
DAMAGE = (
    OSError,
    KeyError,
    ValueError,
    TypeError,
    RuntimeError,
    AttributeError,
    OverflowError,
    MemoryError,
)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CheckedArrays:
    """Reads arrays by name and compares them with the digest written beside them."""

    path: Path
    file: h5py.File

    def get(self, name: str, kind: str) -> NDArray[Any]:
        """The array /name of numpy kind `kind` ("f4", "u1", …; "S" = any text).

        Raises: FormatError when it is missing, of another type, unreadable, or not what was written.
        """
        node = self.file.get(name)
        if not isinstance(node, h5py.Dataset):
            raise FormatError(f"{self.path}: the array /{name} is missing; make the file again")
        if kind != "S" and node.dtype != np.dtype("<" + kind):
            raise FormatError(
                f"{self.path}: the array /{name} has type {node.dtype}, {np.dtype(kind)} is needed"
            )
        try:
            content = node[()]
        except DAMAGE as error:
            raise FormatError(
                f"{self.path}: the array /{name} is damaged ({error}); make the file again"
            ) from error
        attributes = {key: plain(value) for key, value in node.attrs.items()}
        stored = attributes.pop("sha256", None)
        if stored != _digest(content, attributes):
            raise FormatError(
                f"{self.path}: the array /{name} is not what was written (SHA-256 differs); make the file again"
            )
        return cast(NDArray[Any], content)

    def text(self, name: str) -> list[str]:
        """The array /name as strings."""
        content = self.get(name, "S")
        if content.dtype.kind != "S":
            raise FormatError(f"{self.path}: the array /{name} has type {content.dtype}, text is needed")
        return [value.decode("utf-8") for value in content.tolist()]


def put_array(parent: h5py.Group, path: str, content: NDArray[Any], **attributes: str) -> None:
    """Store one array with its digest; large ones in chunks of rows with gzip, which every HDF5 reader has."""
    options: dict[str, Any] = {}
    if content.nbytes > _CHUNK_BYTES // 16 and content.ndim == 2:
        rows = max(1, min(len(content), _CHUNK_BYTES // max(1, content.nbytes // len(content))))
        options = {
            "chunks": (rows, content.shape[1]),
            "compression": "gzip",
            "compression_opts": 4,
            "shuffle": True,
        }
    if content.dtype.kind == "S":
        content = content.astype(h5py.string_dtype("utf-8", content.dtype.itemsize))
    node = parent.create_dataset(path, data=content, track_times=False, **options)
    for key, value in attributes.items():
        node.attrs[key] = value
    node.attrs["sha256"] = _digest(content, attributes)


def _digest(content: NDArray[Any], attributes: Mapping[str, Any]) -> str:
    """SHA-256 over type, shape, attributes and bytes of an array."""
    kind = f"S{content.dtype.itemsize}" if content.dtype.kind == "S" else np.dtype(content.dtype).str
    head = canonical_json(
        {"type": kind, "shape": list(content.shape), "attributes": dict(sorted(attributes.items()))}
    )
    digest = hashlib.sha256(head.encode())
    digest.update(np.ascontiguousarray(content).tobytes())
    return digest.hexdigest()


def encode_text(values: list[str]) -> NDArray[Any]:
    """Text as a fixed-width UTF-8 array."""
    encoded = [value.encode("utf-8") for value in values]
    return np.array(encoded, dtype=f"S{max([1, *map(len, encoded)])}")


def plain(value: Any) -> Any:
    """An attribute as a Python object."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value


def other_format(path: Path, kind: str, found: str | None, needed: str, advice: str = "") -> FormatError:
    """The error for HDF5 that holds something else.

    kind: what is needed, after `is no`. found: the attribute `format`. advice: how to get what is needed.
    """
    says = f"its format is {found!r}" if found else "it has no 'format' attribute"
    return FormatError(
        f"{path}: is no {kind} ({says}, {needed!r} is needed){f'; {advice}' if advice else ''}"
    )


def canonical_json(content: Any) -> str:
    """JSON with sorted keys, the same text for the same content. Raises: BioattnError when it is not JSON."""
    try:
        return json.dumps(content, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise BioattnError(f"the metadata are not plain JSON ({error})") from error
