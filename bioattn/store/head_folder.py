"""A folder of what `bioattn explain heads` found, as it stands on disk: names, `heads.json`, whether both agree.

`docs/heads.md` is the contract; `bioattn.interpret.head_report` writes it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.files import check_apart, check_parent, read_json, sha256_of
from bioattn.store.description import Description, describe
from bioattn.store.findings import Finding, error

FORMAT, FORMAT_VERSION = "bioattn-heads", "1.0"
RECORD = "heads.json"
HEADS, BY_TREATMENT, BY_PROTEIN, PRUNING = "heads.tsv", "treatments.tsv", "proteins.tsv", "pruning.tsv"
FILES = frozenset({RECORD, HEADS, BY_TREATMENT, BY_PROTEIN, PRUNING})


def check_head_folder(output: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Raises: SettingsError when `output` cannot name a folder; BioattnError when it is in the way."""
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    check_parent(output)
    check_apart(output, inputs)
    if output.is_file():
        raise BioattnError(f"{output}: is a file, the tables need a folder; choose another --output")
    if output.exists() and any(output.iterdir()):
        if not force:
            raise BioattnError(f"{output}: exists already; choose another --output, or --force to replace it")
        if not (output / RECORD).is_file():
            raise BioattnError(
                f"{output}: holds no {RECORD}, and --force replaces no other folder; choose another --output"
            )


def inspect_heads(folder: Path) -> Description:
    """The main figures. Raises: FormatError for a damaged record or a missing file."""
    record = _record(folder)
    for name in record["sha256"]:
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: {name}, named in {RECORD}, is missing; run explain heads again")
    left_out = ("format", "sha256")
    return describe("heads", **{name: value for name, value in record.items() if name not in left_out})


def validate_heads(folder: Path) -> list[Finding]:
    """Whether every table is the one that `heads.json` speaks of."""
    return [
        error(name, f"is not the file that {RECORD} speaks of")
        for name, digest in _record(folder)["sha256"].items()
        if sha256_of(folder / name) != digest
    ]


def _record(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FormatError(f"{path}: does not describe heads of a model of bioattn")
    version = str(content.get("format_version"))
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise FormatError(f"{path}: version {version} is not the {FORMAT_VERSION} that this bioattn reads")
    digests = content.get("sha256")
    if not isinstance(digests, dict) or not set(digests) <= FILES:
        raise FormatError(f"{path}: is incomplete or was edited")
    return content
