"""What an attention file over alignments says of the settings it was made with.

So that a run that goes on (--resume) tells the file it would make from one of other settings.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import open_hdf5, strings, text_attribute
from bioattn.store.shard_record import SHARD

SETTINGS = "settings_sha256"
"""Root attribute."""
_OF_INPUTS = frozenset({"alignments", "num_alignments"})
"""What a job says of its alignments, of which the file itself tells."""


def settings_digest(job: Mapping[str, Any]) -> str:
    """SHA-256 of what a job says but for its alignments, the same for a whole and its shards."""
    settings = {name: value for name, value in job.items() if name not in _OF_INPUTS}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def is_attention_of(path: Path, job: Mapping[str, Any], alignments: Mapping[str, str]) -> bool:
    """Whether a file is the whole attention that a job makes; not of a shard, and not of an earlier version.

    alignments: name → SHA-256 of its file.
    """
    if not path.is_file():
        return False
    try:
        with open_hdf5(path) as file:
            if SHARD in file.attrs or text_attribute(file, SETTINGS) != settings_digest(job):
                return False
            samples = file["samples"]
            return alignments == dict(
                zip(strings(samples["id"]), strings(samples["input_sha256"]), strict=True)
            )
    except FormatError:
        return False  # damaged, or something else
