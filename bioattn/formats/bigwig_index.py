"""The indexes of bigWig files: chromosomes by name (a B+ tree), sections by place (an R tree), and zoom levels.

Trees are written level by level, the root first; every node but the last of its level is full (Kent et al. 2010,
doi:10.1093/bioinformatics/btq351, supplement). A record of a zoom level summarises the bases that have a value
among those of one bin; bins are aligned, and those without a value have no record. Records of a level come out of
those of the level below, all levels in one pass over the data; they wait on disk until the data are written.
"""

import itertools
import shutil
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 256
"""Children of a node at most."""
_CHROMOSOME_MAGIC = 0x78CA8C91
_SECTION_MAGIC = 0x2468ACE0
_CHROMOSOME_HEADER = struct.Struct("<IIIIQQ")
_SECTION_HEADER = struct.Struct("<IIQIIIIQII")
_NODE = struct.Struct("<BBH")
_CORNERS = ("start_chrom", "start", "end_chrom", "end")
_PLACE = [*((name, "<u4") for name in _CORNERS), ("offset", "<u8")]
_LEAF = np.dtype([*_PLACE, ("size", "<u8")])
_INNER = np.dtype(_PLACE)


Section = tuple[int, int, int, int, int]
"""Where a section lies: number of its chromosome, start and end on it, offset and size in the file."""


def section_index(places: Sequence[Section], offset: int, items_per_section: int) -> bytes:
    """The R tree over sections in ascending order and apart, to be written at `offset`, where they end."""
    rows = [(chrom, start, chrom, end, at, size) for chrom, start, end, at, size in places]
    levels = [np.array(rows, dtype=_LEAF)]
    block = _block_size(len(places))
    while len(levels[0]) > block:
        children = levels[0]
        firsts, lasts = _groups(len(children), block)
        parents = np.zeros(len(firsts), dtype=_INNER)
        for name in _CORNERS:
            # In ascending order and apart: the first one starts first, the last one reaches furthest.
            parents[name] = children[name][firsts if name.startswith("start") else lasts]
        levels.insert(0, parents)
    corners = [int(levels[0][name][0 if name.startswith("start") else -1]) for name in _CORNERS]
    header = _SECTION_HEADER.pack(_SECTION_MAGIC, block, len(places), *corners, offset, items_per_section, 0)
    return header + _nodes(levels, offset + len(header), block)


def chromosome_tree(chromosomes: Sequence[tuple[str, int]], offset: int) -> bytes:
    """The B+ tree of (name, length), in the order of the names' bytes and numbered so, to be written at `offset`.

    Raises: ValueError for chromosomes in another order.
    """
    keys = [name.encode() for name, _ in chromosomes]
    if keys != sorted(set(keys)):
        raise ValueError("chromosomes are not in the order of their names, each once")
    key_size = max(map(len, keys))
    block = _block_size(len(keys))
    leaves = np.zeros(len(keys), dtype=[("key", f"S{key_size}"), ("number", "<u4"), ("length", "<u4")])
    leaves["key"], leaves["number"] = keys, np.arange(len(keys))
    leaves["length"] = [length for _, length in chromosomes]
    levels = [leaves]
    while len(levels[0]) > block:
        firsts, _ = _groups(len(levels[0]), block)
        parents = np.zeros(len(firsts), dtype=[("key", f"S{key_size}"), ("offset", "<u8")])
        parents["key"] = levels[0]["key"][firsts]
        levels.insert(0, parents)
    header = _CHROMOSOME_HEADER.pack(_CHROMOSOME_MAGIC, block, key_size, 8, len(keys), 0)
    return header + _nodes(levels, offset + len(header), block)


def _block_size(items: int) -> int:
    return min(BLOCK_SIZE, max(2, items))


def _groups(number: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last of every `block` of `number` items."""
    firsts = np.arange(0, number, block)
    return firsts, np.minimum(firsts + block, number) - 1


def _nodes(levels: Sequence[NDArray[np.void]], offset: int, block: int) -> bytes:
    """All nodes from the root down, the first at `offset`; nodes are filled up with zeros to one size a level."""
    sizes = [_NODE.size + block * level.dtype.itemsize for level in levels]
    counts = [len(_groups(len(level), block)[0]) for level in levels]
    parts = []
    begin = offset
    for depth, level in enumerate(levels):
        is_leaf = depth == len(levels) - 1
        begin += counts[depth] * sizes[depth]
        if not is_leaf:
            level["offset"] = begin + sizes[depth + 1] * np.arange(len(level), dtype=np.uint64)
        for first in range(0, len(level), block):
            items = level[first : first + block]
            parts.append((_NODE.pack(is_leaf, 0, len(items)) + items.tobytes()).ljust(sizes[depth], b"\0"))
    return b"".join(parts)


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
_WHOLE, _REAL = ("chrom", "start", "end", "valid"), ("least", "most", "sum", "sum_of_squares")
ZOOM_RECORD = np.dtype([*((name, "<u4") for name in _WHOLE), *((name, "<f4") for name in _REAL)])
_EXACT = np.dtype([*((name, "<i8") for name in _WHOLE), *((name, "<f8") for name in _REAL)])
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
        self, chrom: int, starts: NDArray[np.int64], ends: NDArray[np.int64], values: NDArray[np.float64]
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
        self._places: list[Section] = []
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

    def copy_into(self, file: BinaryIO) -> list[Section]:
        """Write all blocks of records at the end of `file`; returns where they lie in it."""
        offset = file.tell()
        places = [(chrom, start, end, at + offset, size) for chrom, start, end, at, size in self._places]
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
                self._places.append((chrom, start, until, self._file.tell(), len(packed)))
                self._file.write(packed)
