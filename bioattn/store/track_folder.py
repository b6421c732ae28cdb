"""A folder of tracks as it stands on disk: names of its files, `tracks.json`, and whether both agree.

`docs/formats/tracks.md` is the contract; `bioattn.interpret.tracks` writes it.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.files import check_apart, check_parent, read_json, sha256_of
from bioattn.store.description import Description, describe, some
from bioattn.store.findings import Finding, error

FORMAT = "bioattn-tracks"
FORMAT_VERSION = "1.0"
RECORD = "tracks.json"
STRANDS = {"+": "plus", "-": "minus"}
"""How strands are called in file names."""


class TrackFormat(StrEnum):
    """What a track is written as."""

    BIGWIG = "bigwig"
    BEDGRAPH = "bedgraph"
    TSV = "tsv"
    """The weight of every bin of every promoter, before overlaps are settled."""


_TRACK_FILE = re.compile(r".+\.(?:(?:plus|minus)\.(?:bw|bedgraph(?:\.gz)?)|genes\.tsv(?:\.gz)?)")
_BEING_WRITTEN = re.compile(r"\A\.tmp-\d+-")
"""What `bioattn.files.atomic_output` puts before the names that a killed process leaves."""
_UNSAFE = re.compile(r"[^A-Za-z0-9.+-]+")
_LONGEST_NAME = 80


def is_track_file(name: str) -> bool:
    """Whether a file in a folder of tracks has a name that bioattn gives there."""
    return name == RECORD or _TRACK_FILE.fullmatch(name) is not None


def file_stems(names: Iterable[str]) -> list[str]:
    """A file name for each name of a treatment: safe everywhere, and no two alike, also where case does not count.

    >>> file_stems(["heat 37 °C", "heat-37 C", "Heat 37 C", "+/-"])
    ['heat_37_C', 'heat-37_C', 'Heat_37_C-2', '+_-']
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = _UNSAFE.sub("_", plain).strip("._")[:_LONGEST_NAME] or "treatment"
        number, unique = 1, stem
        while unique.casefold() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.casefold())
        stems.append(unique)
    return stems


def check_track_folder(output: Path, inputs: Sequence[Path], *, force: bool) -> set[str]:
    """Refuse a folder that cannot take tracks; returns the names of our files that it and its like hold.

    Raises: SettingsError when `output` cannot name a folder or holds an input; BioattnError when it is in the way.
    """
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    check_parent(output)
    check_apart(output, inputs)
    if output.exists() and not output.is_dir():
        raise BioattnError(f"{output}: is a file, tracks need a folder; choose another --output")
    if output.is_dir() and any(output.iterdir()):
        if not force:
            raise BioattnError(f"{output}: exists already; choose another --output, or --force to replace it")
        if not (output / RECORD).is_file():
            raise BioattnError(
                f"{output}: is no folder of tracks, and --force replaces no other; choose another --output"
            )
    # Those of earlier runs too, which may have had other treatments, and of runs that were killed.
    folders = [
        output,
        output.with_name(output.name + ".partial"),
        output.with_name(f".tmp-old-{output.name}"),
    ]
    found = {
        _BEING_WRITTEN.sub("", path.name) for each in folders if each.is_dir() for path in each.iterdir()
    }
    return {name for name in found if is_track_file(name)} | {RECORD}


def read_record(folder: Path) -> dict[str, Any]:
    """`tracks.json` of a folder. Raises: FormatError when it is none or of a newer major version."""
    path = folder / RECORD
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FormatError(f"{path}: does not describe tracks of bioattn")
    version = str(content.get("format_version"))
    if version.partition(".")[0] != FORMAT_VERSION.partition(".")[0]:
        raise FormatError(f"{path}: version {version} is not the {FORMAT_VERSION} that this bioattn reads")
    try:
        for track in content["tracks"]:
            for file in track["files"]:
                if not is_track_file(file["file"]) or Path(file["file"]).name != file["file"]:
                    raise FormatError(f"{path}: {file['file']!r} is no name of a track's file")
                str(file["sha256"])
    except (KeyError, TypeError) as problem:
        raise FormatError(f"{path}: is incomplete ({problem!r})") from problem
    return content


def inspect_tracks(folder: Path) -> Description:
    """The main figures of a folder of tracks. Raises: FormatError for a damaged record or a missing file."""
    record = read_record(folder)
    files = [file["file"] for track in record["tracks"] for file in track["files"]]
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise FormatError(
            f"{folder}: {missing[0]}"
            + (f" and {len(missing) - 1:,} more files" if len(missing) > 1 else "")
            + " named in tracks.json missing; export the tracks again with --force"
        )
    left_out = ("format", "format_version", "generated_by", "tracks", "chromosomes")
    figures = {name: value for name, value in record.items() if name not in left_out}
    return describe(
        "tracks",
        tracks=some([_title(track) for track in record["tracks"]]),
        files=some(files),
        chromosomes=some(list(record.get("chromosomes", []))),
        **figures,
    )


def validate_tracks(folder: Path) -> list[Finding]:
    """Whether every file of a folder of tracks is the one that `tracks.json` speaks of."""
    findings = []
    for track in read_record(folder)["tracks"]:
        for file in track["files"]:
            path = folder / file["file"]
            try:
                if sha256_of(path) != file["sha256"]:
                    findings.append(error(file["file"], "is not the file that tracks.json speaks of"))
            except BioattnError as problem:
                findings.append(error(file["file"], str(problem).removeprefix(f"{path}: ")))
    return findings


def _title(track: dict[str, Any]) -> str:
    reference = track.get("reference")
    name = track.get("treatment") or "all treatments"
    return str(name) if reference is None else f"{name} minus {reference}"
