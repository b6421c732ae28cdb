"""Refusing an alignment that memory cannot hold before it is read."""

import os
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.files import GZIP_MAGIC, XZ_MAGIC
from bioattn.system.memory import free_memory
from bioattn.text import human_bytes

BYTES_PER_LETTER = 8
"""Peak memory of reading and preparing an alignment, by the size of its text (docs/formats/msa.md)."""
_PACKED = 4
"""How much smaller alignments are packed, at least."""


def check_alignment_size(path: Path) -> None:
    """Refuse an alignment file that needs more memory than there is; nothing is said of what is not a plain file.

    Raises: BioattnError with the estimate.
    """
    free = free_memory()
    # os.path, unlike Path: a name that is longer than names can be is no file
    if free is None or not os.path.isfile(path):  # noqa: PTH113
        return
    needed = BYTES_PER_LETTER * _text_size(path)
    if needed > free:
        raise BioattnError(
            f"{path}: an alignment of about {human_bytes(_text_size(path))} of text needs about "
            f"{human_bytes(needed)} of memory, {human_bytes(free)} are free; give it fewer rows (the best ones "
            "usually come first), or take a larger machine"
        )


def _text_size(path: Path) -> int:
    """Bytes of the text in a file; a lower bound for compressed ones."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(XZ_MAGIC))
    except OSError:
        return 0
    size = path.stat().st_size
    return size * _PACKED if magic.startswith(GZIP_MAGIC) or magic == XZ_MAGIC else size
