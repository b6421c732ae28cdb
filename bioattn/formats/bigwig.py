"""Signal along chromosomes as bedGraph and bigWig: sorted intervals with a value, 0-based, half-open, apart.

bigWig holds the same intervals as bedGraph, indexed, with summaries for zooming out. The format is that of Kent et
al. 2010 (doi:10.1093/bioinformatics/btq351, supplement), version 4, little-endian:

    header | slots of zoom levels | summary of the whole | chromosomes by name (a B+ tree)
    data: number of sections, sections | their index (an R tree)
    each zoom level: number of records, blocks of records | their index
    the magic number again

Sections are of the bedGraph type, packed with zlib. Trees are written level by level, the root first; every node
but the last of its level is full. A record of a zoom level summarises the bases that have a value among those of
one bin; bins are aligned, and those without a value have no record. Records of a level come out of those of the
level below.
(pybigtools 0.3.0 writes wrong zoom records, so the writer is ours.)
"""

import itertools
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from bioattn.io.files import atomic_output

LINES_AT_ONCE = 8192
"""Lines formatted by one `%`: long enough to be fast, short enough to stay small."""


Colour = tuple[int, int, int]
MAGIC = 0x888FFC26
VERSION = 4
LONGEST_CHROMOSOME = 2**32 - 1
"""Bases: the format has 32 bits for a position."""
ITEMS_PER_SECTION = 1024
_HEADER = struct.Struct("<IHHQQQHHQQIQ")
_ZOOM_HEADER = struct.Struct("<IIQQ")
_SUMMARY = struct.Struct("<Qdddd")
_SECTION = struct.Struct("<IIIIIBBH")
_ITEM = np.dtype([("start", "<u4"), ("end", "<u4"), ("value", "<f4")])
_COUNT = struct.Struct("<Q")
_BEDGRAPH_SECTION = 1
_NO_FIELDS = (0, 0, 0)
"""Number of columns, of standard ones, and where they are described: bigBed's."""


Section = tuple[int, int, int, int, int]
"""Where a section lies: number of its chromosome, start and end on it, offset and size in the file."""


class Intervals(NamedTuple):
    """Consecutive intervals of one chromosome, in ascending order, each shape (n,)."""

    chrom: str
    starts: NDArray[np.int64]
    """0-based first bases."""
    ends: NDArray[np.int64]
    """Bases after the last."""
    values: NDArray[np.float32]


def track_line(name: str, description: str, colour: Colour, other_colour: Colour | None = None) -> str:
    """Make the track line, which tells genome browsers (IGV, UCSC) the name and style of the bedGraph below it.

    other_colour: of values below 0. Quotation marks in names become apostrophes, as the line cannot escape them.
    """
    fields = {"name": _quoted(name), "description": _quoted(description), "visibility": "full"}
    fields["color"] = ",".join(map(str, colour))
    if other_colour is not None:
        fields["altColor"] = ",".join(map(str, other_colour))
    fields |= {"autoScale": "on", "alwaysZero": "on", "graphType": "bar", "windowingFunction": "maximum"}
    return "track type=bedGraph " + " ".join(f"{key}={value}" for key, value in fields.items()) + "\n"


def write_intervals(file: TextIO, intervals: Intervals) -> None:
    """Write one line per interval, values with 7 significant digits."""
    # A name in a format string: its own % would be taken for a field.
    line = intervals.chrom.replace("%", "%%") + "\t%d\t%d\t%.7g\n"
    for first in range(0, len(intervals.starts), LINES_AT_ONCE):
        starts, ends, values = (each[first : first + LINES_AT_ONCE] for each in intervals[1:])
        cells: list[int | float] = [0] * (3 * len(starts))
        # + 0.0: a negative zero reads as "-0".
        cells[0::3], cells[1::3], cells[2::3] = starts.tolist(), ends.tolist(), (values + 0.0).tolist()
        file.write(line * len(starts) % tuple(cells))


def _quoted(text: str) -> str:
    return '"' + " ".join(text.replace('"', "'").split()) + '"'


def write_bigwig(path: Path, lengths: Mapping[str, int], blocks: Iterable[Intervals]) -> int:
    """Write the intervals and return how many bases they cover; the file appears when it is complete.

    lengths: of all chromosomes, at most `LONGEST_CHROMOSOME`. blocks: finite values of intervals within their
    chromosome, in ascending order, all of a chromosome together and chromosomes in the order of their names'
    bytes, none of which is checked; what the iterable raises leaves no file.

    Raises: BioattnError when the file cannot be written; ValueError for no interval at all.
    """
    names = sorted(lengths, key=str.encode)
    numbers = {name: number for number, name in enumerate(names)}
    places: list[Section] = []
    intervals = bases = 0
    total = total_of_squares = 0.0
    least, most = np.inf, -np.inf
    summary_offset = _HEADER.size + MOST_LEVELS * _ZOOM_HEADER.size
    tree_offset = summary_offset + _SUMMARY.size
    with atomic_output(path) as temporary, temporary.open("w+b") as file:
        zoomed: list[NDArray[np.void]] = []
        # What is known last is filled in at the end.
        file.write(
            bytes(tree_offset) + chromosome_tree([(name, lengths[name]) for name in names], tree_offset)
        )
        data_offset = file.tell()
        file.write(bytes(_COUNT.size))
        for block in blocks:
            if not len(block.starts):
                continue
            number = numbers[block.chrom]
            widths = block.ends - block.starts
            values = block.values.astype(np.float64)
            intervals += len(widths)
            bases += int(widths.sum())
            total += float(values @ widths)
            total_of_squares += float(values**2 @ widths)
            least, most = min(least, values.min()), max(most, values.max())
            zoomed.append(_in_bins(_by_bin(number, block, values), FIRST_REDUCTION))
            places += _write_sections(file, number, block)
        if not bases:
            raise ValueError("there is no interval to write")
        index_offset = file.tell()
        file.write(section_index(places, index_offset, ITEMS_PER_SECTION))
        levels = _write_zooms(file, np.concatenate(zoomed), intervals)
        file.write(struct.pack("<I", MAGIC))
        largest = max(
            _SECTION.size + ITEMS_PER_SECTION * _ITEM.itemsize, RECORDS_PER_BLOCK * ZOOM_RECORD.itemsize
        )
        offsets = (tree_offset, data_offset, index_offset, *_NO_FIELDS, summary_offset)
        file.seek(0)
        file.write(_HEADER.pack(MAGIC, VERSION, len(levels), *offsets, largest, 0) + b"".join(levels))
        file.seek(summary_offset)
        file.write(_SUMMARY.pack(bases, least, most, total, total_of_squares))
        file.seek(data_offset)
        file.write(_COUNT.pack(len(places)))
    return bases


def _write_sections(file: BinaryIO, number: int, block: Intervals) -> list[Section]:
    items = np.empty(len(block.starts), dtype=_ITEM)
    items["start"], items["end"], items["value"] = block.starts, block.ends, block.values
    places: list[Section] = []
    for first in range(0, len(items), ITEMS_PER_SECTION):
        part = items[first : first + ITEMS_PER_SECTION]
        start, end = int(part["start"][0]), int(part["end"][-1])
        header = _SECTION.pack(number, start, end, 0, 0, _BEDGRAPH_SECTION, 0, len(part))
        packed = zlib.compress(header + part.tobytes())
        places.append((number, start, end, file.tell(), len(packed)))
        file.write(packed)
    return places


# --- indexes ---

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
    """The B+ tree of (name, length) in the order of the names' bytes, to be written at `offset`."""
    keys = [name.encode() for name, _ in chromosomes]
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


# --- zoom levels ---

FIRST_REDUCTION = 64
"""Bases per bin of the first level; each further level has four times as many."""
STEP = 4
MOST_LEVELS = 10
RECORDS_PER_BLOCK = 512
_FEW_RECORDS = 256
"""A level with no more than that is the last one worth having."""
_WHOLE, _REAL = ("chrom", "start", "end", "valid"), ("least", "most", "sum", "sum_of_squares")
ZOOM_RECORD = np.dtype([*((name, "<u4") for name in _WHOLE), *((name, "<f4") for name in _REAL)])
_EXACT = np.dtype([*((name, "<i8") for name in _WHOLE), *((name, "<f8") for name in _REAL)])
"""The same while it is added up."""


def _by_bin(chrom: int, block: Intervals, values: NDArray[np.float64]) -> NDArray[np.void]:
    """A record of each interval in each bin of the first level that it reaches into."""
    first, last = block.starts // FIRST_REDUCTION, (block.ends - 1) // FIRST_REDUCTION
    counts = last - first + 1
    of = np.repeat(np.arange(len(block.starts)), counts)
    bins = first[of] + np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    records = np.empty(len(of), dtype=_EXACT)
    records["chrom"] = chrom
    records["start"] = np.maximum(block.starts[of], bins * FIRST_REDUCTION)
    records["end"] = np.minimum(block.ends[of], (bins + 1) * FIRST_REDUCTION)
    records["valid"] = records["end"] - records["start"]
    records["least"] = records["most"] = values[of]
    records["sum"] = values[of] * records["valid"]
    records["sum_of_squares"] = values[of] ** 2 * records["valid"]
    return records


def _in_bins(records: NDArray[np.void], reduction: int) -> NDArray[np.void]:
    """Records in ascending order, summed over bins of `reduction` bases."""
    bins = records["start"] // reduction
    first = np.ones(len(records), dtype=np.bool_)
    first[1:] = (bins[1:] != bins[:-1]) | (records["chrom"][1:] != records["chrom"][:-1])
    begins = np.flatnonzero(first)
    summed = records[begins]
    summed["end"] = records["end"][np.append(begins[1:], len(records)) - 1]
    for name in ("valid", "sum", "sum_of_squares"):
        summed[name] = np.add.reduceat(records[name], begins)
    summed["least"] = np.minimum.reduceat(records["least"], begins)
    summed["most"] = np.maximum.reduceat(records["most"], begins)
    return summed


def _write_zooms(file: BinaryIO, records: NDArray[np.void], intervals: int) -> list[bytes]:
    """Write the levels worth having of a file of so many intervals; returns their headers."""
    headers: list[bytes] = []
    for reduction in (FIRST_REDUCTION * STEP**number for number in range(MOST_LEVELS)):
        records = _in_bins(records, reduction)
        # Reading a level is to be cheaper than reading the data.
        if 2 * len(records) > intervals:
            continue
        offset = file.tell()
        file.write(struct.pack("<I", len(records)))
        places: list[Section] = []
        changes = np.flatnonzero(np.diff(records["chrom"])) + 1
        for begin, end in itertools.pairwise([0, *changes.tolist(), len(records)]):
            for first in range(begin, end, RECORDS_PER_BLOCK):
                block = records[first : min(first + RECORDS_PER_BLOCK, end)]
                span = int(block["chrom"][0]), int(block["start"][0]), int(block["end"][-1])
                packed = zlib.compress(block.astype(ZOOM_RECORD).tobytes())
                places.append((*span, file.tell(), len(packed)))
                file.write(packed)
        index = file.tell()
        file.write(section_index(places, index, RECORDS_PER_BLOCK))
        headers.append(_ZOOM_HEADER.pack(reduction, 0, offset, index))
        if len(records) <= _FEW_RECORDS:
            break
    return headers
