"""Weights of unknown origin: PyTorch checkpoints, of which tensors alone are read, and safetensors."""

import json
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from bioattn.errors import FormatError
from bioattn.io.files import first_bytes, unreadable

_CONTAINERS = ("ema", "params", "state_dict", "model_state_dict", "module", "model")
"""Where training checkpoints keep the weights; averaged weights come first."""
_PREFIXES = ("module.", "model.")
_POINTER = b"version https://git-lfs"


def load_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint by name, out of whatever a training program wrapped them in; left on the disk
    where its format allows it. Never unpickles objects.

    Raises: FormatError when it holds other objects or no named tensors, or is damaged; BioattnError when the
    system does not open it.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        if (named := re.search(r"GLOBAL (\S+)", str(error))) is None:
            raise damaged(path, "damaged or not a PyTorch checkpoint") from error
        raise FormatError(
            f"{path}: holds Python objects ({named[1]}) besides tensors, which are never unpickled here; save its "
            "state dict alone"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    except MemoryError:
        raise
    except Exception as error:  # whatever damaged bytes lead the unpickler to
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise FormatError(f"{path}: damaged or not a PyTorch checkpoint ({reason})") from error
    while isinstance(content, Mapping):
        inner = next((content[key] for key in _CONTAINERS if isinstance(content.get(key), Mapping)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping):
        raise FormatError(
            f"{path}: holds a {type(content).__name__}, a state dict (names and tensors) is needed"
        )
    tensors = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise FormatError(f"{path}: holds no tensors")
    # What wrapping a model in another puts before all names.
    while prefix := next(
        (each for each in _PREFIXES if all(name.startswith(each) for name in tensors)), None
    ):
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


DAMAGE = (SafetensorError, json.JSONDecodeError)


def open_safetensors(path: Path) -> Any:
    """Open a file by `safetensors.safe_open` for torch, as a context manager or not.

    Raises: FormatError when it is damaged or something else; BioattnError when the system does not open it.
    """
    first_bytes(path, 0)  # safetensors says of every file that it cannot open that there is none
    try:
        return safe_open(path, framework="pt")
    except (OSError, RuntimeError, *DAMAGE) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception | str) -> FormatError:
    """Make the error for a damaged file, or for what `git clone` puts in the place of a large one."""
    if first_bytes(path, len(_POINTER)) == _POINTER:
        return FormatError(f"{path}: is a pointer of Git LFS, not the file; fetch that: git lfs pull")
    found = error if isinstance(error, str) else f"damaged or not a safetensors file ({error})"
    return FormatError(f"{path}: {found}")
