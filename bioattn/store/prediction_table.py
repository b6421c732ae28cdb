"""Parts of tables of predictions: which shard a part is stands in its first line, a digest of it in its last.

    #bioattn-shard {"shard": "3/8", "shard_inputs": "128-192/3000", "shard_job": {…}}
    gene_id<tab>heat<tab>cold
    YAL001C<tab>0.25<tab>-1.5
    #sha256 <of all before this line, 64 hex digits>

Nothing else survives that a part is renamed, moved or printed; whatever passes over `#` (pandas with
`comment="#"`, R as it is) reads the table in it. A whole table has neither line.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.io.files import parse_json, read_lines
from bioattn.store.shard_record import ShardRecord, parse_record

PREDICTIONS_JOB = "bioattn-predictions-parts"
"""The format that the job of a part gives."""
PART_START = "#bioattn-shard "
_SEAL_START = "#sha256 "


class PartSeal:
    """The digest of a part as it is written or read."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, text: str) -> None:
        """Go on with the next text."""
        self._digest.update(text.encode())

    def line(self) -> str:
        """The last line."""
        return f"{_SEAL_START}{self._digest.hexdigest()}\n"


def part_line(record: ShardRecord) -> str:
    """The first line."""
    return PART_START + json.dumps(record.as_json(), ensure_ascii=False) + "\n"


class PredictionPart:
    """An open part of a table; made by `open_part`."""

    def __init__(self, path: Path, lines: Iterator[tuple[int, str]]) -> None:
        self.path = path
        self._lines = lines
        self._seal = PartSeal()
        first = self._next()
        if first is None or not first.startswith(PART_START):
            raise FormatError(f"{path}: is no part of a sharded run (its first line does not say which)")
        content = parse_json(first.removeprefix(PART_START), f"{path}:1")
        self.record = parse_record(content if isinstance(content, dict) else {}, str(path))
        header = self._next()
        if header is None or header.startswith(_SEAL_START):
            raise self._cut_short()
        self.header = header
        """The line of names, without its end."""

    def rows(self) -> Iterator[str]:
        """The lines below the header, without their ends.

        Raises: FormatError when the part is cut short, or is not what was written (behind its last row).
        """
        number = 0
        held: str | None = None
        for line in iter(self._read, None):
            if held is not None:
                self._seal.add(held + "\n")
                yield held
                number += 1
            held = line
        if held is None or not held.startswith(_SEAL_START):
            raise self._cut_short()
        if held + "\n" != self._seal.line():
            raise FormatError(
                f"{self.path}: is not what was written (SHA-256 differs); copy it or make it again"
            )
        wanted = self.record.stop - self.record.first
        if number != wanted:
            raise FormatError(f"{self.path}: has {number:,} rows for {wanted:,} inputs; make it again")

    def _read(self) -> str | None:
        line = next(self._lines, None)
        return None if line is None else line[1]

    def _next(self) -> str | None:
        line = self._read()
        if line is not None:
            self._seal.add(line + "\n")
        return line

    def _cut_short(self) -> FormatError:
        return FormatError(
            f"{self.path}: ends without its digest, so it is cut short; copy it or make it again"
        )


@contextmanager
def open_part(path: Path) -> Iterator[PredictionPart]:
    """Open a part of a table for reading.

    Raises: FormatError when the file is none, or damaged in its first lines; BioattnError when it cannot be read.
    """
    lines = read_lines(path)
    with closing(lines):  # type: ignore[type-var]
        yield PredictionPart(path, lines)
