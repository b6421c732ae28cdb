"""A folder of what `bioattn explain heads` found, as it stands on disk: names, `heads.json`, whether both agree.

`docs/heads.md` is the contract; `bioattn.interpret.heads.report` writes it.
"""

from bioattn.store.recorded_folder import RecordedFolder, without

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
    figures=lambda record: without(record, "format", "sha256"),
    advice="run explain heads again",
)
