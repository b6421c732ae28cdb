"""A folder of tracks as it stands on disk: names of its files, `tracks.json`, and whether both agree.

`docs/formats/tracks.md` is the contract; `bioattn.interpret.tracks.export` writes it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from bioattn.store.recorded_folder import RecordedFolder, without
from bioattn.text import some

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


_TRACK_FILE = re.compile(r"[^/]+\.(?:(?:plus|minus)\.(?:bw|bedgraph(?:\.gz)?)|genes\.tsv(?:\.gz)?)")
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


def _files(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(file["file"], file["sha256"]) for track in record["tracks"] for file in track["files"]]


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tracks": some([_title(track) for track in record["tracks"]]),
        "files": some([name for name, _ in _files(record)]),
        "chromosomes": some(list(record.get("chromosomes", []))),
        **without(record, "format", "format_version", "generated_by", "tracks", "chromosomes"),
    }


def _title(track: dict[str, Any]) -> str:
    reference = track.get("reference")
    name = track.get("treatment") or "all treatments"
    return str(name) if reference is None else f"{name} minus {reference}"


TRACK_FOLDER = RecordedFolder(
    what="tracks",
    format=FORMAT,
    format_version=FORMAT_VERSION,
    record=RECORD,
    is_own=is_track_file,
    files_of=_files,
    figures=_figures,
    advice="export the tracks again with --force",
)
