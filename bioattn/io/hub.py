"""Models by name: those that come with bioattn (`yeast-stress`), and of the Hugging Face hub
(`facebook/esm2_t6_8M_UR50D`, perhaps with `@` and a revision)."""

import re
from pathlib import Path

from bioattn.errors import BioattnError

SHIPPED = (Path(__file__).parents[1] / "shipped", Path(__file__).parents[2] / "data" / "models")
"""Where models that come along lie: in an installed package, in a copy of the repository."""
_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_SMALL_FILES = ("*.json", "*.txt", "*.model")
_WEIGHTS = ("*.safetensors", "*.bin")


def shipped_model(path: Path) -> Path:
    """The folder of the model of this name that comes along; the path itself where there is none, or something."""
    if path.exists() or len(path.parts) != 1:
        return path
    return next((folder / path for folder in SHIPPED if (folder / path).is_dir()), path)


def local_model(path: Path) -> Path:
    """The folder of a model: the path itself, unless there is nothing. Then that of the model of this name that
    comes along, or where it reads as a name of the hub, of the copy which huggingface_hub keeps, and fetches where
    it may (HF_HUB_OFFLINE).

    Raises: BioattnError with the command that fetches it, where that library is not installed or has no copy.
    """
    path = shipped_model(path)
    match = _NAME.fullmatch(str(path))
    if match is None or path.exists() or path.parent.exists():
        return path
    name, revision = match[1], match[2]
    command = f"`hf download {name}{f' --revision {revision}' if revision else ''}`"
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise BioattnError(
            f"{path}: no such folder; to take it from the Hugging Face hub `pip install huggingface_hub`, then "
            f"{command}"
        ) from error
    try:
        for weights in _WEIGHTS:  # the older form only where there is no other
            names = [*_SMALL_FILES, weights]
            # Of files in subfolders none is read.
            found = snapshot_download(name, revision=revision, allow_patterns=names, ignore_patterns="*/*")
            folder = Path(found)
            if any(folder.glob(weights)):
                break
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BioattnError(
            f"{path}: no such folder, and the Hugging Face hub did not give it ({reason}); where there is a "
            f"network: {command}"
        ) from error
    return folder
