"""Shards: which part of a whole a result is (`--shard 3/8`).

A part says so itself, whatever its name: HDF5 in attributes of the root, a table in its first line
(`#bioattn-shard {…}`). Shards of a command that makes a folder for each input share their folder.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import FormatError, SettingsError
from bioattn.io.files import parse_json, read_lines
from bioattn.io.hdf5 import text_attribute
from bioattn.system.shard import Shard, parse_shard

SETTINGS = "settings"
"""Root attribute of HDF5 results: JSON of all that decides the content beside model and samples."""
UNFINISHED = "unfinished"
"""Root attribute of what an interrupted run left: samples are missing."""
SHARD, SHARD_INPUTS = "shard", "shard_inputs"
"""Root attributes of HDF5 files, and keys of JSON."""
PART_START = "#bioattn-shard "


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """Which part of which whole a result is."""

    shard: Shard
    first: int
    """The first of its inputs (promoters, alignments), from 0 over all of them."""
    stop: int
    total: int
    settings: Mapping[str, Any]
    """JSON values of all that decides the content of the whole, equal in all its parts."""

    @classmethod
    def of(cls, shard: Shard, total: int, settings: Mapping[str, Any], unit: int = 1) -> "ShardRecord":
        """The record of a shard of `total` inputs, of which `unit` stay together."""
        inputs = shard.slice(total, unit)
        # As it is read back: JSON has no tuples.
        plain = json.loads(json.dumps(settings))
        return cls(shard=shard, first=inputs.start, stop=inputs.stop, total=total, settings=plain)

    @property
    def part(self) -> str:
        """For people: `part 3 of 8`."""
        return f"part {self.shard.number:,} of {self.shard.count:,}"

    def figures(self) -> dict[str, str]:
        """For `inspect`."""
        return {SHARD: self.part, SHARD_INPUTS: f"{self.first + 1:,} to {self.stop:,} of {self.total:,}"}

    def attributes(self) -> dict[str, str]:
        """Of HDF5, where the settings stand beside."""
        return {SHARD: str(self.shard), SHARD_INPUTS: f"{self.first}-{self.stop}/{self.total}"}

    def as_json(self) -> dict[str, Any]:
        return {**self.attributes(), SETTINGS: dict(self.settings)}


def parse_record(content: Any, source: str) -> ShardRecord:
    """A record as `as_json` gives it. Raises: FormatError naming `source` when it does not read so."""
    try:
        shard = parse_shard(content[SHARD])
        inputs, _, total = content[SHARD_INPUTS].partition("/")
        first, _, stop = inputs.partition("-")
        settings = content[SETTINGS]
        record = ShardRecord(
            shard=shard, first=int(first), stop=int(stop), total=int(total), settings=settings
        )
        if not (isinstance(settings, dict) and 0 <= record.first <= record.stop <= record.total):
            raise ValueError("out of range")
    except (SettingsError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{source}: does not say readably which shard it is; make it again") from error
    return record


def shard_of_hdf5(path: Path, file: h5py.File) -> ShardRecord | None:
    """The record in an HDF5 file; None for a whole. Raises: FormatError when it does not read so."""
    if SHARD not in file.attrs:
        return None
    content: dict[str, Any] = {name: text_attribute(file, name) for name in (SHARD, SHARD_INPUTS)}
    content[SETTINGS] = parse_json(text_attribute(file, SETTINGS) or "{}", str(path))
    return parse_record(content, str(path))


def table_line(record: ShardRecord) -> str:
    """The first line of a part of a table."""
    return PART_START + json.dumps(record.as_json(), ensure_ascii=False) + "\n"


def shard_of_table(path: Path) -> ShardRecord | None:
    """The record in the first line of a table; None for a whole. Raises: FormatError when it does not read so."""
    first = next(read_lines(path), (1, ""))[1]
    if not first.startswith(PART_START):
        return None
    return parse_record(parse_json(first.removeprefix(PART_START), f"{path}:1"), str(path))
