"""A folder of motifs as it stands on disk: names of its files, `motifs.json`, and whether both agree.

`docs/formats/motifs.md` is the contract; `bioattn.interpret.motifs.export` writes it.
"""

import re
from collections.abc import Mapping
from typing import Any

from bioattn.store.recorded_folder import RecordedFolder, without
from bioattn.text import some

FORMAT = "bioattn-motifs"
FORMAT_VERSION = "1.0"
RECORD = "motifs.json"
MEME, MOTIFS, TREATMENTS, EDGES = "motifs.meme", "motifs.tsv", "treatments.tsv", "edges.tsv"
LOGOS = "logos"
FILES = (MEME, MOTIFS, TREATMENTS, EDGES)
_LOGO = re.compile(r"logos/[A-Za-z0-9_]+\.svg")


def is_motif_file(name: str) -> bool:
    """Whether a file of a folder of motifs has a name (below the folder) that bioattn gives there."""
    return name in (RECORD, *FILES) or _LOGO.fullmatch(name) is not None


def _files(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(file["file"], file["sha256"]) for file in record["files"]]


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("format", "format_version", "generated_by", "files", "sources", "settings")
    files = some([name for name, _ in _files(record)])
    return {"files": files, **without(record, *left_out), **record["settings"]}


MOTIF_FOLDER = RecordedFolder(
    what="motifs",
    format=FORMAT,
    format_version=FORMAT_VERSION,
    record=RECORD,
    is_own=is_motif_file,
    files_of=_files,
    figures=_figures,
    advice="export the motifs again with --force",
)
