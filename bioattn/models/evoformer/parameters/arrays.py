"""Named arrays as they lie in a parameter file: `.npz`, PyTorch checkpoint, or weights of a model folder.

Each opens lazily and gives one array at a time, so that a file is never in memory as a whole beside the model.
"""

import zipfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.npz import ARCHIVE_DAMAGE, NpzArrays
from bioattn.io.checkpoint import load_state_dict
from bioattn.io.files import unreadable
from bioattn.io.safetensors_input import DAMAGE, damaged, open_safetensors
from bioattn.models.family import CONFIG, WEIGHTS

Shape = tuple[int, ...]


class TorchArrays:
    """The tensors of a PyTorch checkpoint: a state dict, alone or inside a training checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        tensors = load_state_dict(path)
        self._tensors = tensors
        self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}

    def read(self, name: str) -> NDArray[np.float32]:
        """One array as float32. Raises: FormatError when it holds no real numbers."""
        tensor = self._tensors[name]
        if not tensor.is_floating_point():
            raise FormatError(
                f"{self.path}: the array {name} has type {tensor.dtype}, real numbers are needed"
            )
        array: NDArray[np.float32] = tensor.detach().float().numpy()
        return array

    def close(self) -> None:
        self._tensors = {}


class FolderArrays:
    def __init__(self, folder: Path) -> None:
        self.path = folder / WEIGHTS
        try:
            file = open_safetensors(self.path)
            names = list(file.keys())
            self.shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
        except DAMAGE as error:
            raise damaged(self.path, error) from error
        self._file = file

    def read(self, name: str) -> NDArray[np.float32]:
        """One array as float32."""
        array: NDArray[np.float32] = self._file.get_tensor(name).float().numpy()
        return array

    def close(self) -> None:
        """Let go of the file."""


StoredArrays: TypeAlias = NpzArrays | TorchArrays | FolderArrays
"""Arrays of one file by their names in it: `path`, `shapes`, `read(name)` as float32, `close()`."""


def open_arrays(path: Path) -> StoredArrays:
    """Open a parameter file by its content.

    Raises: FormatError when it is none of the three kinds, holds pickled objects, or is damaged; BioattnError when
    it cannot be read.
    """
    if path.is_dir():
        if not (path / CONFIG).is_file() or not (path / WEIGHTS).is_file():
            raise FormatError(f"{path}: not a model folder, {CONFIG} and {WEIGHTS} are not both there")
        return FolderArrays(path)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    if magic == b"PK\x03\x04":
        return NpzArrays(path) if _holds_npy(path) else TorchArrays(path)
    if magic[:2] == b"\x80\x02":
        return TorchArrays(path)
    raise FormatError(
        f"{path}: no parameter file (AlphaFold's .npz, an OpenFold .pt, or a model folder is needed)"
        + ("; unpack the archive first" if magic[:2] == b"\x1f\x8b" or path.suffix == ".tar" else "")
    )


def _holds_npy(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return not any(name.endswith("data.pkl") for name in archive.namelist())
    except ARCHIVE_DAMAGE as error:
        raise FormatError(f"{path}: the archive is damaged ({error}); fetch the file again") from error
