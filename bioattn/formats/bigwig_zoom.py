"""Zoom levels of bigWig: what lies in stretches of a chromosome, for looking at much of it at once.

A record summarises the bases that have a value among those of one bin; bins are aligned, and those without a value
have no record. Records of a level come out of those of the level below, all levels in one pass over the data; they
wait on disk until the data are written.
"""

import itertools
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.big_index import SectionPlaces

FIRST_REDUCTION = 64
"""Bases per bin of the first level; each further level has four times as many."""
STEP = 4
MOST_LEVELS = 10
RECORDS_PER_BLOCK = 512
_FEW_RECORDS = 256
"""A level with no more than that is the last one worth having."""
_RECORDS_IN_MEMORY = 64 * RECORDS_PER_BLOCK
_BYTES_IN_MEMORY = 1 << 20
"""Packed records of a level go to disk beyond that."""
ZOOM_RECORD = np.dtype(
    [
        ("chrom", "<u4"),
        ("start", "<u4"),
        ("end", "<u4"),
        ("valid", "<u4"),
        ("least", "<f4"),
        ("most", "<f4"),
        ("sum", "<f4"),
        ("sum_of_squares", "<f4"),
    ]
)
_EXACT = np.dtype(
    [(name, "<f8" if ZOOM_RECORD[name].kind == "f" else "<i8") for name in ZOOM_RECORD.names or ()]
)
"""The same while it is added up."""


class ZoomLevels:
    """All levels of one file."""

    def __init__(self, folder: Path) -> None:
        """folder: where records wait."""
        self._levels = [ZoomLevel(FIRST_REDUCTION * STEP**number, folder) for number in range(MOST_LEVELS)]

    def __enter__(self) -> "ZoomLevels":
        return self

    def __exit__(self, *_: object) -> None:
        for level in self._levels:
            level.drop()

    def add(
        self,
        chrom: int,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Go on with the next intervals of a chromosome."""
        first, last = starts // FIRST_REDUCTION, (ends - 1) // FIRST_REDUCTION
        counts = last - first + 1
        of = np.repeat(np.arange(len(starts)), counts)
        bins = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        records = np.empty(len(of), dtype=_EXACT)
        records["chrom"] = chrom
        records["start"] = np.maximum(starts[of], bins * FIRST_REDUCTION)
        records["end"] = np.minimum(ends[of], (bins + 1) * FIRST_REDUCTION)
        records["valid"] = records["end"] - records["start"]
        records["least"] = records["most"] = values[of]
        records["sum"] = values[of] * records["valid"]
        records["sum_of_squares"] = values[of] ** 2 * records["valid"]
        self._pass_up(records, 0)

    def _pass_up(self, records: NDArray[np.void], number: int) -> None:
        for level in self._levels[number:]:
            if not len(records):
                return
            records = level.take(records)

    def finish(self, intervals: int) -> list["ZoomLevel"]:
        """The levels worth having of a file of so many intervals, complete."""
        for number, level in enumerate(self._levels):
            self._pass_up(level.close(), number + 1)
        chosen = []
        for level in self._levels:
            # Reading a level is to be cheaper than reading the data.
            if 2 * level.count <= intervals:
                chosen.append(level)
                if level.count <= _FEW_RECORDS:
                    break
        return chosen


class ZoomLevel:
    """Records of one bin size."""

    def __init__(self, reduction: int, folder: Path) -> None:
        self.reduction = reduction
        """Bases per bin."""
        self.count = 0
        """Records."""
        self._file = tempfile.SpooledTemporaryFile(max_size=_BYTES_IN_MEMORY, dir=str(folder))  # noqa: SIM115 - `drop`
        self._places = SectionPlaces()
        self._open = np.empty(0, dtype=_EXACT)
        self._waiting: list[NDArray[np.void]] = []

    def take(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Add records of the level below, in order; returns those of this level that are complete by now."""
        records = np.concatenate([self._open, records])
        bins = records["start"] // self.reduction
        first = np.ones(len(records), dtype=np.bool_)
        first[1:] = (bins[1:] != bins[:-1]) | (records["chrom"][1:] != records["chrom"][:-1])
        begins = np.flatnonzero(first)
        summed = records[begins]
        summed["end"] = records["end"][np.append(begins[1:], len(records)) - 1]
        for name in ("valid", "sum", "sum_of_squares"):
            summed[name] = np.add.reduceat(records[name], begins)
        summed["least"] = np.minimum.reduceat(records["least"], begins)
        summed["most"] = np.maximum.reduceat(records["most"], begins)
        # More may come into the last bin.
        self._open, complete = summed[-1:], summed[:-1]
        self._store(complete)
        return complete

    def close(self) -> NDArray[np.void]:
        """No more records come; returns the last one, if there is any."""
        last, self._open = self._open, self._open[:0]
        self._store(last)
        self._write_blocks()
        return last

    def copy_into(self, file: BinaryIO) -> SectionPlaces:
        """Write all blocks of records at the end of `file`; returns where they lie in it."""
        places = self._places.moved(file.tell())
        self._file.seek(0)
        shutil.copyfileobj(self._file, file)
        return places

    def drop(self) -> None:
        """Let go of what waits on disk."""
        self._file.close()

    def _store(self, records: NDArray[np.void]) -> None:
        self.count += len(records)
        self._waiting.append(records)
        if sum(map(len, self._waiting)) >= _RECORDS_IN_MEMORY:
            self._write_blocks()

    def _write_blocks(self) -> None:
        """Write what waits in blocks, each of one chromosome."""
        records = np.concatenate([self._open[:0], *self._waiting])
        self._waiting = []
        changes = np.flatnonzero(np.diff(records["chrom"])) + 1
        for begin, end in itertools.pairwise([0, *changes.tolist(), len(records)]):
            for first in range(begin, end, RECORDS_PER_BLOCK):
                block = records[first : min(first + RECORDS_PER_BLOCK, end)]
                packed = zlib.compress(block.astype(ZOOM_RECORD).tobytes())
                chrom, start, until = int(block["chrom"][0]), int(block["start"][0]), int(block["end"][-1])
                self._places.add(chrom, start, until, self._file.tell(), len(packed))
                self._file.write(packed)
