"""Attribution as a folder of NumPy archives, as it stands on disk: names, `arrays.json`, whether both agree.

`docs/formats/attribution.md` is the contract; `bioattn.interpret.attribution.npz_export` writes it.
"""

import re
from collections.abc import Mapping
from typing import Any

from bioattn.store.recorded_folder import RecordedFolder, without
from bioattn.text import some

FORMAT, FORMAT_VERSION = "bioattn-attribution-arrays", "1.0"
RECORD = "arrays.json"
SEQUENCES, TREATMENTS, GENES = "sequences.npz", "treatments.tsv", "genes.tsv"
_ARCHIVE = re.compile(r"[A-Za-z0-9._+-]+\.npz")
"""What `file_stems` leaves of a treatment's name."""


def is_array_file(name: str) -> bool:
    """Whether a file in a folder of arrays has a name that bioattn gives there."""
    return name in (RECORD, TREATMENTS, GENES) or _ARCHIVE.fullmatch(name) is not None


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("format", "format_version", "generated_by", "sha256", "treatments")
    return {"treatments": some(list(record.get("treatments", []))), **without(record, *left_out)}


ARRAY_FOLDER = RecordedFolder(
    what="attribution arrays",
    format=FORMAT,
    format_version=FORMAT_VERSION,
    record=RECORD,
    is_own=is_array_file,
    files_of=lambda record: record["sha256"].items(),
    figures=_figures,
    advice="export the attribution again with --force",
)
