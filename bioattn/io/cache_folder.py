"""Where indexes of genomes are kept between runs."""

import os
from pathlib import Path

from bioattn.errors import BioattnError


def cache_folder() -> Path:
    """Find the folder of genome indexes, and create it when missing. Raises: BioattnError when that fails."""
    named = os.environ.get("BIOATTN_CACHE")
    if named:
        folder = Path(named)
    elif os.environ.get("XDG_CACHE_HOME"):
        folder = Path(os.environ["XDG_CACHE_HOME"]) / "bioattn"
    else:
        folder = Path("~/.cache/bioattn")
    other = "name another one in BIOATTN_CACHE or an index file with --index"
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home folder
        reason = error.strerror if isinstance(error, OSError) else error
        raise BioattnError(f"{folder}: the cache folder cannot be made ({reason}); {other}") from error
    return folder
