"""The container of the datasets that models are trained from: a sealed HDF5 file with a format and a version.

Text is stored as fixed-width UTF-8: its bytes repeat from run to run, and R, Julia and xarray read it without ado.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import parse_json
from bioattn.io.hdf5_input import is_hdf5, open_hdf5, other_format

_CHUNK_BYTES = 1 << 20
_TEXTS = 4096
"""Strings that are encoded at a time."""
_COMPRESSED = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetKind:
    name: str
    """What messages call it."""
    format: str
    """Root attribute `format`."""
    version: int
    """Root attribute `format_version` of new files; files of earlier versions are read too."""
    command: str
    """The command that makes it."""

    def write_attributes(self, file: h5py.File, **more: str | int) -> None:
        """Write the root attributes, those of every kind and `more`."""
        file.attrs["format"] = self.format
        file.attrs["format_version"] = self.version
        file.attrs["generated_by"] = f"bioattn {__version__}"
        for name, value in more.items():
            file.attrs[name] = value

    @contextmanager
    def open(self, path: Path) -> Iterator["DatasetArrays"]:
        """Open a file of this kind for reading, its seal compared; one without a seal is read, too (`open_hdf5`).

        Raises: FormatError naming what is wrong: another kind or version, truncated, or the array whose bytes
        changed after they were written.
        """
        if not is_hdf5(path):
            raise FormatError(
                f"{path}: is not an HDF5 file; a {self.name} made by `{self.command}` is needed"
            )
        with open_hdf5(path) as file:
            self._check_attributes(path, file)
            yield DatasetArrays(path, file)

    def _check_attributes(self, path: Path, file: h5py.File) -> None:
        stored = file.attrs.get("format")
        if stored != self.format:
            raise other_format(path, self.name, stored, self.format, f"make one with `{self.command}`")
        version = file.attrs.get("format_version")
        if not isinstance(version, np.integer) or not 1 <= version <= self.version:
            newer = isinstance(version, np.integer) and version > self.version
            advice = "update bioattn" if newer else f"make the {self.name} again with `{self.command}`"
            raise FormatError(
                f"{path}: has format version {version}, this bioattn reads 1 to {self.version}; {advice}"
            )


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

    def text(self, name: str) -> list[str]:
        """The array /name as strings. Raises: FormatError as `get`."""
        node = self._node(name)
        if node.dtype.kind != "S":
            raise FormatError(f"{self.path}: the array /{name} has type {node.dtype}, text is needed")
        return [value.decode("utf-8") for value in node[()].tolist()]

    def metadata(self) -> dict[str, Any]:
        """What `put_metadata` wrote."""
        return cast(dict[str, Any], parse_json(self.text("metadata")[0], f"{self.path}: /metadata"))

    def _node(self, name: str) -> h5py.Dataset:
        node = self.file.get(name)
        if not isinstance(node, h5py.Dataset):
            raise FormatError(f"{self.path}: the array /{name} is missing; make the file again")
        return node


def put_array(parent: h5py.Group, path: str, content: NDArray[Any]) -> h5py.Dataset:
    """Store one array; large ones in chunks of rows with gzip, which every HDF5 reader has."""
    options: dict[str, Any] = {}
    if content.nbytes > _CHUNK_BYTES // 16 and content.ndim == 2:
        rows = max(1, min(len(content), _CHUNK_BYTES // max(1, content.nbytes // len(content))))
        options = {"chunks": (rows, content.shape[1]), **_COMPRESSED}
    return parent.create_dataset(path, data=content, track_times=False, **options)


def put_text(parent: h5py.Group, path: str, values: Sequence[str]) -> h5py.Dataset:
    """Store strings as fixed-width UTF-8."""
    width = max((len(value.encode("utf-8")) for value in values), default=0)
    kind = h5py.string_dtype("utf-8", max(1, width))
    array = parent.create_dataset(path, (len(values),), kind, track_times=False)
    for start in range(0, len(values), _TEXTS):
        block = [value.encode("utf-8") for value in values[start : start + _TEXTS]]
        array[start : start + _TEXTS] = np.array(block, kind)
    return array


def put_metadata(file: h5py.File, metadata: dict[str, Any]) -> None:
    """Store JSON with sorted keys as /metadata. Raises: BioattnError when it is not JSON."""
    try:
        put_text(file, "metadata", [json.dumps(metadata, allow_nan=False, sort_keys=True)])
    except (TypeError, ValueError) as error:
        raise BioattnError(f"the metadata are not plain JSON ({error})") from error
