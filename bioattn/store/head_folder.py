"""A folder of what `bioattn explain heads` found, as it stands on disk: names, `heads.json`, whether both agree.

`docs/heads.md` is the contract; `bioattn.interpret.heads.report` writes it.
"""

from pathlib import Path

from bioattn.store.description import Description, describe
from bioattn.store.recorded_folder import RecordedFolder

FORMAT, FORMAT_VERSION = "bioattn-heads", "1.0"
RECORD = "heads.json"
HEADS, BY_TREATMENT, BY_PROTEIN, PRUNING = "heads.tsv", "treatments.tsv", "proteins.tsv", "pruning.tsv"
FILES = frozenset({RECORD, HEADS, BY_TREATMENT, BY_PROTEIN, PRUNING})


HEAD_FOLDER = RecordedFolder(
    what="tables of heads",
    format=FORMAT,
    format_version=FORMAT_VERSION,
    record=RECORD,
    is_own=FILES.__contains__,
    files_of=lambda record: record["sha256"].items(),
)


def inspect_heads(folder: Path) -> Description:
    """The main figures. Raises: FormatError for a damaged record or a missing file."""
    record = HEAD_FOLDER.read(folder)
    HEAD_FOLDER.require_files(folder, record, "run explain heads again")
    left_out = ("format", "sha256")
    return describe("heads", **{name: value for name, value in record.items() if name not in left_out})
