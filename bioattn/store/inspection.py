"""What a file is: `inspect_file` looks at content, not at names, and gives its main figures."""

from pathlib import Path

from bioattn.store.description import Description, as_json, as_text
from bioattn.store.kinds import recognise

__all__ = ["Description", "as_json", "as_text", "inspect_file"]


def inspect_file(path: Path) -> Description:
    """What `path` is and its main figures.

    Raises: BioattnError when it cannot be read or is nothing that bioattn knows; FormatError when it is of a known
    kind but damaged.
    """
    kind = recognise(path)
    return Description(kind.name, kind.title, kind.describe(path))
