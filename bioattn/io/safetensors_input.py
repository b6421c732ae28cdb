"""Opening safetensors files of unknown origin."""

import json
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from bioattn.errors import FormatError
from bioattn.io.files import unreadable

DAMAGE = (SafetensorError, json.JSONDecodeError)
"""What reading a damaged file raises."""


def open_safetensors(path: Path) -> Any:
    """Open a file by `safetensors.safe_open` for torch, as a context manager or not.

    Raises: FormatError when it is damaged or something else; BioattnError when the system does not open it.
    """
    try:
        path.open("rb").close()  # safetensors says of every file that it cannot open that there is none
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return safe_open(path, framework="pt")
    except (OSError, *DAMAGE) as error:
        raise damaged(path, error) from error
    except RuntimeError as error:
        # torch maps the file and tells of the system's refusal by a sentence that ends with its number.
        number = re.search(r"\((\d+)\)$", str(error))
        if number is None:
            raise damaged(path, error) from error
        code = int(number[1])
        raise unreadable(path, OSError(code, os.strerror(code))) from error


def damaged(path: Path, error: Exception) -> FormatError:
    """Make the error for a damaged file."""
    return FormatError(f"{path}: damaged or not a safetensors file ({error})")
