"""A folder of motifs as it stands on disk: names of its files, `motifs.json`, and whether both agree.

`docs/formats/motifs.md` is the contract; `bioattn.interpret.motif_export` writes it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.files import check_apart, check_parent, read_json, sha256_of
from bioattn.store.description import Description, describe, some
from bioattn.store.findings import Finding, error

FORMAT = "bioattn-motifs"
FORMAT_VERSION = "1.0"
RECORD = "motifs.json"
MEME, MOTIFS, TREATMENTS, EDGES = "motifs.meme", "motifs.tsv", "treatments.tsv", "edges.tsv"
LOGOS = "logos"
FILES = (MEME, MOTIFS, TREATMENTS, EDGES)
_BEING_WRITTEN = re.compile(r"\.tmp-\d+-")
"""What `bioattn.files.atomic_output` puts before the names that a killed process leaves."""
_LOGO = re.compile(r"logos/[A-Za-z0-9_]+\.svg")


def is_motif_file(name: str) -> bool:
    """Whether a file of a folder of motifs has a name (below the folder) that bioattn gives there."""
    return name in (RECORD, *FILES) or _LOGO.fullmatch(name) is not None


def check_motif_folder(output: Path, inputs: Sequence[Path], *, force: bool) -> set[str]:
    """Refuse a folder that cannot take motifs; returns the names of our files that it and its like hold.

    Raises: SettingsError when `output` cannot name a folder or holds an input; BioattnError when it is in the way.
    """
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    check_parent(output)
    check_apart(output, inputs)
    if output.exists() and not output.is_dir():
        raise BioattnError(f"{output}: is a file, motifs need a folder; choose another --output")
    if output.is_dir() and any(output.iterdir()):
        if not force:
            raise BioattnError(f"{output}: exists already; choose another --output, or --force to replace it")
        if not (output / RECORD).is_file():
            raise BioattnError(
                f"{output}: is no folder of motifs, and --force replaces no other; choose another --output"
            )
    folders = [
        output,
        output.with_name(output.name + ".partial"),
        output.with_name(f".tmp-old-{output.name}"),
    ]
    found = {
        _BEING_WRITTEN.sub("", path.relative_to(each).as_posix())
        for each in folders
        if each.is_dir()
        for path in [*each.iterdir(), *each.glob(f"{LOGOS}/*")]
    }
    return {name for name in found if is_motif_file(name)} | {RECORD, *FILES}


def read_motif_record(folder: Path) -> dict[str, Any]:
    """`motifs.json` of a folder. Raises: FormatError when it is none or of a newer major version."""
    path = folder / RECORD
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FormatError(f"{path}: does not describe motifs of bioattn")
    version = str(content.get("format_version"))
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise FormatError(f"{path}: version {version} is not the {FORMAT_VERSION} that this bioattn reads")
    try:
        for file in content["files"]:
            if not is_motif_file(file["file"]):
                raise FormatError(f"{path}: {file['file']!r} is no name of a file of motifs")
            str(file["sha256"])
    except (KeyError, TypeError) as problem:
        raise FormatError(f"{path}: is incomplete ({problem!r})") from problem
    return content


def inspect_motifs(folder: Path) -> Description:
    """The main figures of a folder of motifs. Raises: FormatError for a damaged record or a missing file."""
    record = read_motif_record(folder)
    names = [file["file"] for file in record["files"]]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise FormatError(
            f"{folder}: {missing[0]}"
            + (f" and {len(missing) - 1:,} more files" if len(missing) > 1 else "")
            + f" named in {RECORD} missing; export the motifs again with --force"
        )
    left_out = ("format", "format_version", "generated_by", "files", "sources", "settings")
    figures = {name: value for name, value in record.items() if name not in left_out}
    return describe("motifs", files=some(names), **figures, **record["settings"])


def validate_motifs(folder: Path) -> list[Finding]:
    """Whether every file of a folder of motifs is the one that `motifs.json` speaks of."""
    findings = []
    for file in read_motif_record(folder)["files"]:
        path = folder / file["file"]
        try:
            if sha256_of(path) != file["sha256"]:
                findings.append(error(file["file"], f"is not the file that {RECORD} speaks of"))
        except BioattnError as problem:
            findings.append(error(file["file"], str(problem).removeprefix(f"{path}: ")))
    return findings
