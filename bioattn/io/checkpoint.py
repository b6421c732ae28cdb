"""Opening PyTorch checkpoints of unknown origin: tensors alone, never pickled objects."""

import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from bioattn.errors import FormatError
from bioattn.io.files import unreadable


def load_checkpoint(path: Path) -> Any:
    """The checkpoint with its tensors left on the disk where its format allows it; never unpickles objects.

    Raises: FormatError when it holds other objects or is damaged; BioattnError when the system does not open it.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        what = f" ({named[1]})" if named else ""
        raise FormatError(
            f"{path}: holds Python objects{what} besides tensors, which are never unpickled here; save its "
            "state dict alone"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error
    except MemoryError:
        raise
    except Exception as error:  # whatever damaged bytes lead the unpickler to
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise FormatError(f"{path}: damaged or not a PyTorch checkpoint ({reason})") from error
