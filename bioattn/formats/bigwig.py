"""Signal along chromosomes as bedGraph and bigWig: sorted intervals with a value, 0-based, half-open, apart.

bigWig holds the same intervals as bedGraph, indexed, with summaries for zooming out. The format is that of Kent et
al. 2010 (doi:10.1093/bioinformatics/btq351, supplement), version 4, little-endian:

    header | slots of zoom levels | summary of the whole | chromosomes (`big_index`)
    data: number of sections, sections | their index
    each zoom level (`bigwig_zoom`): number of records, blocks of records | their index
    the magic number again

Sections are of the bedGraph type, packed with zlib.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.bigwig_index import (
    MOST_LEVELS,
    RECORDS_PER_BLOCK,
    ZOOM_RECORD,
    Section,
    ZoomLevels,
    chromosome_tree,
    section_index,
)
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
    with atomic_output(path) as temporary, temporary.open("w+b") as file, ZoomLevels(path.parent) as zoom:
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
            zoom.add(number, block.starts, block.ends, values)
            places += _write_sections(file, number, block)
        if not bases:
            raise ValueError("there is no interval to write")
        index_offset = file.tell()
        file.write(section_index(places, index_offset, ITEMS_PER_SECTION))
        levels = []
        for level in zoom.finish(intervals):
            offset = file.tell()
            file.write(struct.pack("<I", level.count))
            places_of_level = level.copy_into(file)
            level_index = file.tell()
            file.write(section_index(places_of_level, level_index, RECORDS_PER_BLOCK))
            levels.append(_ZOOM_HEADER.pack(level.reduction, 0, offset, level_index))
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
