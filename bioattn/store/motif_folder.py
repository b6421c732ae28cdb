"""A folder of motifs as it stands on disk: names of its files, `motifs.json`, and whether both agree.

`docs/formats/motifs.md` is the contract; `bioattn.interpret.motifs.export` writes it.
"""

import re
from pathlib import Path

from bioattn.store.description import Description, describe, some
from bioattn.store.recorded_folder import RecordedFolder

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


MOTIF_FOLDER = RecordedFolder(
    what="motifs",
    format=FORMAT,
    format_version=FORMAT_VERSION,
    record=RECORD,
    is_own=is_motif_file,
    files_of=lambda record: [(file["file"], file["sha256"]) for file in record["files"]],
)


def inspect_motifs(folder: Path) -> Description:
    """The main figures of a folder of motifs. Raises: FormatError for a damaged record or a missing file."""
    record = MOTIF_FOLDER.read(folder)
    names = MOTIF_FOLDER.require_files(folder, record, "export the motifs again with --force")
    left_out = ("format", "format_version", "generated_by", "files", "sources", "settings")
    figures = {name: value for name, value in record.items() if name not in left_out}
    return describe("motifs", files=some(names), **figures, **record["settings"])
