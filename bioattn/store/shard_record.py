"""What a part of a sharded run says of itself: which shard it is, of how many, and of which whole.

It stands in the data themselves, so that it survives being renamed and moved: in HDF5 as attributes of the root,
in a table as its first line, in a folder of results as a file.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import FormatError, SettingsError
from bioattn.io.hdf5_input import open_hdf5, strings, text_attribute
from bioattn.store.problems import Problem, error
from bioattn.system.shard import Shard, parse_shard

SHARD, SHARD_INPUTS, SHARD_JOB = "shard", "shard_inputs", "shard_job"
"""Root attributes of HDF5 files, and keys of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """Which part of which whole a result is."""

    shard: Shard
    first: int
    """The first of its inputs (promoters, alignments), from 0 over all of them."""
    stop: int
    """The input behind its last one."""
    total: int
    """Inputs of all shards together."""
    job: Mapping[str, Any]
    """JSON values of all that decides the bytes of the whole, equal in all its parts."""

    @classmethod
    def of(cls, shard: Shard, total: int, unit: int, job: Mapping[str, Any]) -> "ShardRecord":
        """The record of a shard of `total` inputs, of which `unit` stay together."""
        inputs = shard.slice(total, unit)
        # As it is read back: JSON has no tuples.
        plain = json.loads(json.dumps(job))
        return cls(shard=shard, first=inputs.start, stop=inputs.stop, total=total, job=plain)

    @property
    def may_lack_samples(self) -> bool:
        """Whether an input that failed is not in the results."""
        return bool(self.job.get("may_fail", "num_alignments" in self.job))

    @property
    def part(self) -> str:
        """For people: `part 3 of 8`."""
        return f"part {self.shard.number:,} of {self.shard.count:,}"

    @property
    def inputs(self) -> str:
        """For people: `129 to 192 of 3,000`."""
        if self.first == self.stop:
            return f"none of {self.total:,}"
        if self.first + 1 == self.stop:
            return f"{self.stop:,} of {self.total:,}"
        return f"{self.first + 1:,} to {self.stop:,} of {self.total:,}"

    def figures(self) -> dict[str, str]:
        return {"shard": self.part, "shard_inputs": self.inputs}

    def write(self, file: h5py.File) -> None:
        """Put it into the root attributes of a new file."""
        content = self.as_json()
        content[SHARD_JOB] = json.dumps(self.job, sort_keys=True, ensure_ascii=False)
        for name, value in content.items():
            file.attrs[name] = value

    def as_json(self) -> dict[str, Any]:
        """For a JSON file or line."""
        return {**self.place_as_json(), SHARD_JOB: dict(self.job)}

    def place_as_json(self) -> dict[str, Any]:
        """Without the job."""
        return {SHARD: str(self.shard), SHARD_INPUTS: f"{self.first}-{self.stop}/{self.total}"}

    def differing(self, other: "ShardRecord") -> list[str]:
        """What is not the same in the jobs of two parts, by name."""
        return sorted(name for name in {*self.job, *other.job} if self.job.get(name) != other.job.get(name))


def read_shard(path: Path, file: h5py.File) -> ShardRecord | None:
    """The record in an HDF5 file; None when it is no part. Raises: FormatError when it does not read so."""
    if SHARD not in file.attrs:
        return None
    content: dict[str, Any] = {name: text_attribute(file, name) for name in (SHARD, SHARD_INPUTS, SHARD_JOB)}
    with suppress(TypeError, ValueError, RecursionError):
        content[SHARD_JOB] = json.loads(content[SHARD_JOB])
    return parse_record(content, str(path))


def inputs_of(content: Mapping[str, Any]) -> int:
    """How many inputs are of the part that JSON speaks of. Raises: FormatError when it does not read so."""
    record = parse_record({SHARD_JOB: {}, **content}, "the job")
    return record.stop - record.first


def shard_problems(path: Path, file: h5py.File) -> Iterator[Problem]:
    """Check the shard attributes of an HDF5 file. Yields nothing for a file that is not a shard."""
    try:
        record = read_shard(path, file)
    except FormatError as problem:
        yield error("/", str(problem).removeprefix(f"{path}: "))
        return
    if record is None or not isinstance(file.get("samples/id"), h5py.Dataset):
        return
    number, wanted = len(file["samples/id"]), record.stop - record.first
    if number > wanted or (number < wanted and not record.may_lack_samples):
        yield error("/samples", f"has {number:,} samples for the {wanted:,} inputs of {record.part}")


def parse_record(content: Mapping[str, Any], source: str) -> ShardRecord:
    """A record as `ShardRecord.as_json` gives it. Raises: FormatError naming `source` when it does not read so."""
    try:
        shard = parse_shard(content[SHARD])
        inputs, _, total = content[SHARD_INPUTS].partition("/")
        first, _, stop = inputs.partition("-")
        job = content[SHARD_JOB]
        record = ShardRecord(shard=shard, first=int(first), stop=int(stop), total=int(total), job=job)
        if not (isinstance(job, dict) and 0 <= record.first <= record.stop <= record.total):
            raise ValueError("out of range")
    except (SettingsError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(
            f"{source}: says that it is a part of a sharded run, but not readably of which ({SHARD}, "
            f"{SHARD_INPUTS}, {SHARD_JOB}); make it again"
        ) from error
    return record


SETTINGS = "settings_sha256"
"""Root attribute."""
_OF_INPUTS = frozenset({"alignments", "num_alignments"})
"""What a job says of its alignments, of which the file itself tells."""


def settings_digest(job: Mapping[str, Any]) -> str:
    """SHA-256 of what a job says but for its alignments, the same for a whole and its shards."""
    settings = {name: value for name, value in job.items() if name not in _OF_INPUTS}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def is_attention_of(path: Path, job: Mapping[str, Any], alignments: Mapping[str, str]) -> bool:
    """Whether a file is the whole attention that a job makes; not of a shard, and not of an earlier version.

    alignments: name → SHA-256 of its file.
    """
    if not path.is_file():
        return False
    try:
        with open_hdf5(path) as file:
            if SHARD in file.attrs or text_attribute(file, SETTINGS) != settings_digest(job):
                return False
            samples = file["samples"]
            return alignments == dict(
                zip(strings(samples["id"]), strings(samples["input_sha256"]), strict=True)
            )
    except FormatError:
        return False  # damaged, or something else
