"""The container of the datasets that models are trained from: an HDF5 file with a format and a version."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import FormatError
from bioattn.io.files import parse_json
from bioattn.io.hdf5 import is_hdf5, open_hdf5, other_format, put_array, set_attribute, text_attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetKind:
    name: str
    format: str
    version: int
    command: str

    def write_attributes(self, file: h5py.File, **more: Any) -> None:
        """Write the root attributes, those of every kind and `more`."""
        attributes = {
            "format": self.format,
            "format_version": self.version,
            "generated_by": f"bioattn {__version__}",
            **more,
        }
        for name, value in attributes.items():
            set_attribute(file, name, value)

    @contextmanager
    def open(self, path: Path) -> Iterator["DatasetArrays"]:
        """Open a file of this kind for reading.

        Raises: FormatError when it is of another kind or version, or damaged.
        """
        if not is_hdf5(path):
            raise FormatError(
                f"{path}: is not an HDF5 file; a {self.name} made by `{self.command}` is needed"
            )
        with open_hdf5(path) as file:
            stored, version = text_attribute(file, "format"), file.attrs.get("format_version")
            if stored != self.format:
                raise other_format(path, self.name, stored, self.format, f"make one with `{self.command}`")
            if version != self.version:
                raise FormatError(
                    f"{path}: has format version {version}, this bioattn reads {self.version}; make the "
                    f"{self.name} again with `{self.command}`"
                )
            yield DatasetArrays(path, file)


@dataclass(frozen=True, slots=True)
class DatasetArrays:
    """Reads the arrays of an open dataset by name."""

    path: Path
    file: h5py.File

    def get(self, name: str, kind: str) -> NDArray[Any]:
        """The array /name of NumPy type `kind` ("f4", "u1", …).

        Raises: FormatError when it is missing or of another type.
        """
        node = self._node(name)
        if node.dtype != np.dtype("<" + kind):
            raise FormatError(
                f"{self.path}: the array /{name} has type {node.dtype}, {np.dtype(kind)} is needed"
            )
        return cast(NDArray[Any], node[()])

    def optional(self, name: str, kind: str) -> NDArray[Any] | None:
        """As `get`; None where there is no such array."""
        return self.get(name, kind) if name in self.file else None

    def text(self, name: str) -> list[str]:
        """The array /name as strings. Raises: FormatError as `get`."""
        node = self._node(name)
        if node.dtype.kind != "S":
            raise FormatError(f"{self.path}: the array /{name} has type {node.dtype}, text is needed")
        return [value.decode("utf-8") for value in node[()].tolist()]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the root."""
        return {
            name: value.decode("utf-8") if isinstance(value, bytes) else value
            for name, value in self.file.attrs.items()
        }

    def metadata(self) -> dict[str, Any]:
        """What `put_metadata` wrote."""
        return cast(dict[str, Any], parse_json(self.text("metadata")[0], f"{self.path}: /metadata"))

    def _node(self, name: str) -> h5py.Dataset:
        node = self.file.get(name)
        if not isinstance(node, h5py.Dataset):
            raise FormatError(f"{self.path}: the array /{name} is missing; make the file again")
        return node


def put_metadata(file: h5py.File, metadata: dict[str, Any]) -> None:
    """Store JSON with sorted keys as /metadata."""
    put_array(file, "metadata", [json.dumps(metadata, allow_nan=False, sort_keys=True)])
