"""Signal along chromosomes as bedGraph: intervals with a value, sorted, without overlaps, 0-based and half-open.

`Intervals` is also what `bioattn.formats.bigwig` takes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

LINES_AT_ONCE = 8192
"""Lines formatted by one `%`: long enough to be fast, short enough to stay small."""

Colour = tuple[int, int, int]


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


def checked_intervals(blocks: Iterable[Intervals]) -> Iterator[Intervals]:
    """Yield the blocks, each checked to be fit for bedGraph and bigWig.

    Raises: ValueError when an interval is empty, negative, out of order or overlaps the one before it, a value is
    not finite, or a chromosome comes back after another.
    """
    done: set[str] = set()
    chrom, last = "", 0
    for block in blocks:
        if not len(block.starts):
            continue
        if block.chrom != chrom:
            done.add(chrom)
            chrom, last = block.chrom, 0
            if chrom in done:
                raise ValueError(f"{chrom} comes back after another chromosome")
        ends_before = np.concatenate([[last], block.ends[:-1]])
        if (block.starts < ends_before).any() or (block.ends <= block.starts).any():
            wrong = int(np.flatnonzero((block.starts < ends_before) | (block.ends <= block.starts))[0])
            raise ValueError(
                f"{chrom}:{block.starts[wrong]}-{block.ends[wrong]} is empty or not behind {ends_before[wrong]}"
            )
        if not np.isfinite(block.values).all():
            raise ValueError(f"{chrom}: a value behind {last} is not a finite number")
        last = int(block.ends[-1])
        yield block


def _quoted(text: str) -> str:
    return '"' + " ".join(text.replace('"', "'").split()) + '"'
