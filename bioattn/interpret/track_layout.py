"""The layout of promoter windows along chromosomes, which gives each base one value.

The windows of one chromosome and strand make a stretch, whose covered bases are numbered without gaps in ascending
order. How long chromosomes are stands in a `.fai`, a table of sizes or the FASTA itself.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.bigwig import Intervals
from bioattn.formats.genes import MAX_POSITION_DIGITS
from bioattn.formats.genome import open_genome
from bioattn.io.files import decompression_errors, open_bytes, read_lines
from bioattn.system.progress import SILENT, Progress

LONGEST = 2**32 - 1
"""What bigWig and most programs can count to."""


def read_chromosome_lengths(path: Path, progress: Progress = SILENT) -> dict[str, int]:
    """Read the number of bases of each chromosome, in file order.

    path: tab-separated name and length, further columns ignored (`samtools faidx`, UCSC chrom.sizes), `#` starting
    a comment; or FASTA, plain, gzip or xz, which is indexed as for `prepare promoters`.

    Raises: FormatError, with the line, for a wrong length or a chromosome named twice; as `open_genome`.
    """
    with open_bytes(path) as file, decompression_errors(path):
        start = file.read(1)
    if start == b">":
        return dict(open_genome(path, progress=progress).lengths)
    lengths: dict[str, int] = {}
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else line.split()
        name, length = cells[0].strip(), cells[1].strip() if len(cells) > 1 else ""
        if not length.isdecimal() or len(length) > MAX_POSITION_DIGITS or not 0 < int(length) <= LONGEST:
            raise FormatError(
                f"{path}:{number}: {line[:60]!r} is not a chromosome and its length, separated by a tab"
            )
        if name in lengths:
            raise FormatError(f"{path}:{number}: chromosome {name!r} is named twice")
        lengths[name] = int(length)
    if not lengths:
        raise FormatError(f"{path}: names no chromosome")
    return lengths


def place_windows(
    samples: pd.DataFrame,
    *,
    window_length: int,
    downstream: int,
    chromosome_lengths: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Place promoter windows, cut down to the model's window and the chromosome.

    samples: columns chrom, start, end (0-based, half-open) and strand by gene id, as attention files give them;
    those without a chromosome or strand are left out. downstream: bases of every window from position 0 on.

    Returns, in the same order, the columns sample (row in `samples`), chrom, strand, start and end (bases that
    count), origin (start of the model's whole window on the chromosome; may be negative) and anchor (position 0).

    Raises: BioattnError when a window lies outside its chromosome.
    """
    has_place = (samples["chrom"] != "").to_numpy() & samples["strand"].isin(["+", "-"]).to_numpy()
    chosen = samples[has_place]
    starts, ends = (chosen[name].to_numpy(dtype=np.int64) for name in ("start", "end"))
    plus = (chosen["strand"] == "+").to_numpy()
    origins = np.where(plus, ends - window_length, starts)
    last = np.minimum(ends, origins + window_length)
    if chromosome_lengths is not None:
        last = np.minimum(last, chosen["chrom"].map(chromosome_lengths).to_numpy(dtype=np.int64))
    placed = chosen[["chrom", "strand"]].assign(
        sample=np.flatnonzero(has_place),
        start=np.maximum(np.maximum(starts, origins), 0),
        end=last,
        origin=origins,
        anchor=np.where(plus, ends - downstream, starts + downstream - 1),
    )
    outside = np.flatnonzero(placed["end"] <= placed["start"])
    if outside.size:
        chrom, strand = placed[["chrom", "strand"]].iloc[outside[0]]
        bases = "" if chromosome_lengths is None else f", which has {chromosome_lengths[chrom]:,} bases"
        raise BioattnError(
            f"the window {chrom}:{starts[outside[0]]}-{ends[outside[0]]}({strand}) lies outside its "
            f"chromosome{bases}; are the chromosome sizes those of another genome?"
        )
    return placed


class Piece(NamedTuple):
    """Consecutive bases of a stretch and the promoter that gives them a value."""

    first: int
    length: int
    window: int
    """Row of `Stretch.samples`."""
    offset: int
    """The first base counted from the origin of the window, along the chromosome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The windows of one chromosome and strand."""

    chrom: str
    strand: str
    samples: NDArray[np.int64]
    """Sample numbers of the promoters, ascending, shape (n,)."""
    pieces: Sequence[Piece]
    island_starts: NDArray[np.int64]
    """Where each run of covered bases starts on the chromosome, ascending."""
    island_offsets: NDArray[np.int64]
    """Number of the first base of each run in the stretch; one more entry holds the number of bases."""

    @property
    def bases(self) -> int:
        """Number of bases covered."""
        return int(self.island_offsets[-1])

    def intervals(self, values: NDArray[np.floating]) -> Intervals:
        """Runs of equal values (as float32, which is what bigWig holds) of the covered bases, shape (bases,)."""
        values = values.astype(np.float32)
        begins = np.ones(len(values), dtype=np.bool_)
        begins[1:] = values[1:] != values[:-1]
        begins[self.island_offsets[:-1]] = True
        firsts = np.flatnonzero(begins)
        lengths = np.diff(firsts, append=len(values))
        island = np.searchsorted(self.island_offsets, firsts, side="right") - 1
        starts = firsts + (self.island_starts - self.island_offsets[:-1])[island]
        return Intervals(self.chrom, starts, starts + lengths, values[firsts])


def lay_out(placed: pd.DataFrame) -> list[Stretch]:
    """Make the stretches of windows as of `place_windows`, ordered by chromosome and strand."""
    ordered = placed.sort_values(["chrom", "strand", "start", "end", "sample"])
    groups = ordered.groupby(["chrom", "strand"])
    return [_stretch(str(chrom), str(strand), windows) for (chrom, strand), windows in groups]


def _stretch(chrom: str, strand: str, windows: pd.DataFrame) -> Stretch:
    starts, ends = windows["start"].to_numpy(), windows["end"].to_numpy()
    reach = np.maximum.accumulate(ends)
    begins = np.concatenate([[0], np.flatnonzero(starts[1:] > reach[:-1]) + 1])
    island_starts = starts[begins]
    island_ends = reach[np.append(begins[1:], len(reach)) - 1]
    island_offsets = np.concatenate([[0], np.cumsum(island_ends - island_starts)])
    # From the chromosome to numbers in the stretch, for each window.
    shift = np.repeat(island_offsets[:-1] - island_starts, np.diff(begins, append=len(reach)))
    samples = np.sort(windows["sample"].to_numpy())
    rows = np.searchsorted(samples, windows["sample"].to_numpy())
    origins = windows["origin"].to_numpy()
    pieces = []
    for start, end, window in _nearest(windows, strand):
        first, offset = start + shift[window], start - origins[window]
        pieces.append(Piece(int(first), int(end - start), int(rows[window]), int(offset)))
    return Stretch(
        chrom=chrom,
        strand=strand,
        samples=samples,
        pieces=pieces,
        island_starts=island_starts,
        island_offsets=island_offsets,
    )


def _nearest(windows: pd.DataFrame, strand: str) -> Iterator[tuple[int, int, int]]:
    """(start, end, window) of the bases that each window keeps, in ascending order.

    A base goes to the gene whose position 0 is nearest; of two as near, to the one that it lies upstream of; of
    two at one position, to the first.
    """
    starts, ends, anchors, samples = (windows[name].tolist() for name in ("start", "end", "anchor", "sample"))
    active: list[int] = []
    following = 0
    for low, high in itertools.pairwise(sorted({*starts, *ends})):
        active = [window for window in active if ends[window] > low]
        while following < len(starts) and starts[following] <= low:
            active.append(following)
            following += 1
        # By position 0; of several at one position the first alone.
        rivals: dict[int, int] = {}
        for window in sorted(active, key=lambda window: (anchors[window], samples[window])):
            rivals.setdefault(anchors[window], window)
        begin = low
        for (position, window), after in itertools.zip_longest(rivals.items(), list(rivals)[1:]):
            end = high
            if after is not None:
                # The bases nearer to `position`; upstream of a gene is to its left on the + strand.
                middle = (position + after + 1) // 2 if strand == "+" else (position + after) // 2 + 1
                end = min(high, max(begin, middle))
            if end > begin:
                yield begin, end, window
            begin = end
