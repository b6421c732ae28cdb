"""The layout of promoter windows along chromosomes, which gives each base one value.

The windows of one strand are cut into stretches: some neighbouring windows of one chromosome, which may overlap
each other but no window outside. Inside a stretch the covered bases are numbered without gaps, in ascending order.

How long chromosomes are stands in a `.fai`, a table of sizes or the FASTA itself.
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
from bioattn.formats.genes import MAX_POSITION_DIGITS
from bioattn.formats.genome import open_genome
from bioattn.interpret.choices import Overlapping
from bioattn.io.files import decompression_errors, open_bytes, read_lines
from bioattn.store.reader import AttentionFile
from bioattn.system.progress import SILENT, Progress
from bioattn.text import first_names

LONGEST = 2**32 - 1
"""What bigWig and most programs can count to."""


def read_chromosome_lengths(path: Path, progress: Progress = SILENT) -> dict[str, int]:
    """Read the number of bases of each chromosome, in file order.

    path: tab-separated name and length, further columns ignored (`samtools faidx`, UCSC chrom.sizes), `#` starting
    a comment; or FASTA, plain, gzip or xz, which is indexed as for `prepare promoters`.

    Raises: FormatError naming the line for a length that is none, or a chromosome named twice; as `open_genome`.
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
        length = cells[1].strip() if len(cells) > 1 else ""
        if not length.isdecimal() or len(length) > MAX_POSITION_DIGITS or not 0 < int(length) <= LONGEST:
            raise FormatError(
                f"{path}:{number}: {line[:60]!r} is not a chromosome and its length, separated by a tab"
            )
        name = cells[0].strip()
        if name in lengths:
            raise FormatError(f"{path}:{number}: chromosome {name!r} is named twice")
        lengths[name] = int(length)
    if not lengths:
        raise FormatError(f"{path}: names no chromosome")
    return lengths


STRETCH_BASES = 1 << 20
"""About so many bases are worked on at a time."""


class Windows(NamedTuple):
    """Windows of the promoters of one chromosome and strand, each shape (n,)."""

    samples: NDArray[np.int64]
    starts: NDArray[np.int64]
    """First base on the chromosome that counts, 0-based."""
    ends: NDArray[np.int64]
    """Base after the last one that counts."""
    origins: NDArray[np.int64]
    """Where the model's whole window starts on the chromosome, which may lie before the chromosome."""
    anchors: NDArray[np.int64]
    """Position 0 of each gene."""


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
    """Some neighbouring windows of one chromosome and strand."""

    chrom: str
    strand: str
    samples: NDArray[np.int64]
    """Sample numbers of the promoters, ascending, shape (n,)."""
    pieces: tuple[Piece, ...]
    """They overlap only where several promoters have a say."""
    island_starts: NDArray[np.int64]
    """Where each run of covered bases starts on the chromosome, ascending."""
    island_offsets: NDArray[np.int64]
    """Number of the first base of each run in the stretch; one more entry holds the number of bases."""

    @property
    def bases(self) -> int:
        """Number of bases covered."""
        return int(self.island_offsets[-1])

    @property
    def end(self) -> int:
        """Base of the chromosome after the last one."""
        return int(self.island_starts[-1] + self.island_offsets[-1] - self.island_offsets[-2])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackLayout:
    """All stretches, chromosomes in the order of their names' bytes, and what there was to decide."""

    stretches: Mapping[str, Sequence[Stretch]]
    """By strand, `+` and `-`; a strand without promoters has none."""
    overlapping_genes: int
    """Promoters whose window overlaps another of their strand."""
    overlapping_share: float
    """Share of the covered bases in more than one window of their strand."""


def place_windows(
    chrom: str,
    strand: str,
    samples: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    window_length: int,
    downstream: int,
    chromosome_length: int | None,
) -> Windows:
    """Windows, as attention files give them, cut down to the model's window and the chromosome.

    downstream: bases of every window from position 0 on. Raises: BioattnError when a window lies outside the
    chromosome altogether.
    """
    if strand == "+":
        origins = ends - window_length
        anchors = ends - downstream
    else:
        origins = starts.copy()
        anchors = starts + downstream - 1
    first = np.maximum(np.maximum(starts, origins), 0)
    last = np.minimum(ends, origins + window_length)
    if chromosome_length is not None:
        last = np.minimum(last, chromosome_length)
    outside = np.flatnonzero(last <= first)
    if outside.size:
        length = "" if chromosome_length is None else f", which has {chromosome_length:,} bases"
        raise BioattnError(
            f"the window {chrom}:{starts[outside[0]]}-{ends[outside[0]]}({strand}) lies outside its "
            f"chromosome{length}; are the chromosome sizes those of another genome?"
        )
    return Windows(samples, first, last, origins, anchors)


def lay_out(windows: Mapping[tuple[str, str], Windows], overlapping: Overlapping) -> TrackLayout:
    """Cut the windows, given by chromosome and strand, into stretches."""
    stretches: dict[str, list[Stretch]] = {"+": [], "-": []}
    genes = covered = shared = 0
    for (chrom, strand), placed in sorted(windows.items(), key=lambda item: item[0][0].encode()):
        # Ties: by end and then as in the file, so that the order is always the same.
        order = np.lexsort([placed.samples, placed.ends, placed.starts])
        placed = Windows(*(field[order] for field in placed))
        for part in _neighbours(placed):
            stretch = _stretch(chrom, strand, part, overlapping)
            stretches[strand].append(stretch)
            depth = _depth(part, stretch)
            covered += stretch.bases
            shared += int((depth > 1).sum())
        genes += int(_overlaps_another(placed).sum())
    return TrackLayout(
        stretches=stretches, overlapping_genes=genes, overlapping_share=shared / max(1, covered)
    )


def _neighbours(windows: Windows) -> Iterator[Windows]:
    """Windows, in ascending order, in groups that no window reaches out of."""
    reach = np.maximum.accumulate(windows.ends)
    # A window that starts where all before it have ended may start a group.
    cuts = np.flatnonzero(windows.starts[1:] >= reach[:-1]) + 1
    begin, bases = 0, 0
    for island_begin, island_end in zip([0, *cuts], [*cuts, len(windows.starts)], strict=True):
        island = int(reach[island_end - 1] - windows.starts[island_begin])
        if bases and bases + island > STRETCH_BASES:
            yield Windows(*(field[begin:island_begin] for field in windows))
            begin, bases = island_begin, 0
        bases += island
    yield Windows(*(field[begin:] for field in windows))


def _stretch(chrom: str, strand: str, windows: Windows, overlapping: Overlapping) -> Stretch:
    reach = np.maximum.accumulate(windows.ends)
    begins = np.concatenate([[0], np.flatnonzero(windows.starts[1:] > reach[:-1]) + 1])
    last = np.concatenate([begins[1:], [len(reach)]]) - 1
    island_starts = windows.starts[begins]
    island_offsets = np.concatenate([[0], np.cumsum(reach[last] - island_starts)])
    samples = np.sort(windows.samples)
    rows = np.searchsorted(samples, windows.samples)
    island_of = np.searchsorted(begins, np.arange(len(reach)), side="right") - 1
    shift = (island_offsets[:-1] - island_starts)[island_of]
    pieces = [
        Piece(
            int(start + shift[window]),
            int(end - start),
            int(rows[window]),
            int(start - windows.origins[window]),
        )
        for start, end, window in (
            _nearest(windows, strand)
            if overlapping is Overlapping.NEAREST_GENE
            else zip(windows.starts, windows.ends, range(len(rows)), strict=True)
        )
    ]
    return Stretch(
        chrom=chrom,
        strand=strand,
        samples=samples,
        pieces=tuple(pieces),
        island_starts=island_starts,
        island_offsets=island_offsets,
    )


def _nearest(windows: Windows, strand: str) -> Iterator[tuple[int, int, int]]:
    """(start, end, window) of the bases that each window keeps, in ascending order.

    A base goes to the gene whose position 0 is nearest; of two as near, to the one that it lies upstream of; of
    two in one place, to the first.
    """
    starts, ends, anchors = windows.starts.tolist(), windows.ends.tolist(), windows.anchors.tolist()
    bounds = sorted({*starts, *ends})
    active: list[int] = []
    following = 0
    for low, high in itertools.pairwise(bounds):
        active = [window for window in active if ends[window] > low]
        while following < len(starts) and starts[following] <= low:
            active.append(following)
            following += 1
        # By place of position 0; of several in one place the first alone.
        rivals: dict[int, int] = {}
        for window in sorted(active, key=lambda window: (anchors[window], windows.samples[window])):
            rivals.setdefault(anchors[window], window)
        begin = low
        for place, after in itertools.pairwise([*rivals, None]):
            assert place is not None
            end = high
            if after is not None:
                # The bases nearer to `place` than to `after`; upstream of a gene is to its left on the + strand.
                middle = (place + after + 1) // 2 if strand == "+" else (place + after) // 2 + 1
                end = min(high, max(begin, middle))
            if end > begin:
                yield begin, end, rivals[place]
            begin = end


def _depth(windows: Windows, stretch: Stretch) -> NDArray[np.int64]:
    """How many windows each base of a stretch lies in."""
    steps = np.zeros(stretch.bases + 1, dtype=np.int64)
    island = np.searchsorted(stretch.island_starts, windows.starts, side="right") - 1
    shift = stretch.island_offsets[:-1][island] - stretch.island_starts[island]
    np.add.at(steps, windows.starts + shift, 1)
    np.add.at(steps, windows.ends + shift, -1)
    return np.cumsum(steps)[:-1]


def _overlaps_another(windows: Windows) -> NDArray[np.bool_]:
    reach = np.maximum.accumulate(windows.ends)
    before = np.concatenate([[False], windows.starts[1:] < reach[:-1]])
    after = np.concatenate([windows.starts[1:] < windows.ends[:-1], [False]])
    return np.asarray(before | after)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterPlaces:
    """The promoters with a place, arrays of shape (n,) in file order."""

    windows: Windows
    gene_ids: NDArray[np.object_]
    chroms: NDArray[np.object_]
    reverse: NDArray[np.bool_]
    """Whether the promoter is one of the − strand."""
    by_strand: Mapping[tuple[str, str], Windows]
    """The same windows by chromosome and strand."""
    lengths: dict[str, int]
    """Of the chromosomes; up to the last base of a window where they are not known."""
    without_place: int


def place_promoters(
    attention: AttentionFile,
    genes: Sequence[str] | None = None,
    *,
    downstream: int = 0,
    chromosome_sizes: Path | None = None,
    progress: Progress = SILENT,
) -> PromoterPlaces:
    """Find the promoters of an attention file on their chromosomes; those without a location are counted only.

    genes: ids to take, None = all. downstream: bases of every window from position 0 on.

    Raises: BioattnError when no promoter has a location, or the chromosomes given lack one or end before a window.
    """
    samples = attention.samples
    requested = (
        np.arange(len(samples)) if genes is None else np.sort(samples.index.get_indexer(pd.Index(genes)))
    )
    chroms = samples["chrom"].to_numpy(dtype=object)
    strands = samples["strand"].to_numpy(dtype=object)
    placed = requested[(chroms[requested] != "") & np.isin(strands[requested].astype(str), ("+", "-"))]
    if not placed.size:
        raise BioattnError(
            f"{attention.path}: no promoter asked for has a place on a chromosome, which tracks need; make the "
            "FASTA with `bioattn prepare promoters`, or write chrom:start-end(strand) behind its ids"
        )
    windows: dict[tuple[str, str], Windows] = {}
    lengths = {} if chromosome_sizes is None else read_chromosome_lengths(chromosome_sizes, progress)
    all_starts = samples["start"].to_numpy(dtype=np.int64)
    all_ends = samples["end"].to_numpy(dtype=np.int64)
    for chrom in sorted({str(name) for name in chroms[placed]}):
        if chromosome_sizes is not None and chrom not in lengths:
            raise BioattnError(
                f"{chromosome_sizes}: has no chromosome {chrom!r}, on which promoters of {attention.path} lie; "
                f"it has {first_names(list(lengths))}"
            )
        for strand in ("+", "-"):
            here = placed[(chroms[placed] == chrom) & (strands[placed] == strand)]
            if not here.size:
                continue
            windows[chrom, strand] = place_windows(
                chrom,
                strand,
                here,
                all_starts[here],
                all_ends[here],
                window_length=attention.window_length,
                downstream=downstream,
                chromosome_length=lengths.get(chrom) if chromosome_sizes is not None else None,
            )
    if chromosome_sizes is None:
        for (chrom, _), some in windows.items():
            lengths[chrom] = max(lengths.get(chrom, 0), int(some.ends.max()))
    every = Windows(*(np.concatenate(fields) for fields in zip(*windows.values(), strict=True)))
    order = np.argsort(every.samples)
    every = Windows(*(field[order] for field in every))
    return PromoterPlaces(
        windows=every,
        gene_ids=samples.index.to_numpy(dtype=object)[every.samples],
        chroms=chroms[every.samples],
        reverse=strands[every.samples] == "-",
        by_strand=windows,
        lengths=lengths,
        without_place=len(requested) - len(placed),
    )
