"""Writing the files of one track: bedGraph and bigWig of a strand in one pass, and the table of exact values."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.bigwig import Intervals, track_line, write_bigwig, write_intervals
from bioattn.interpret.choices import Overlapping, Upsampling
from bioattn.interpret.file_kinds import STRANDS, TrackFormat
from bioattn.interpret.maps.position_maps import PositionMaps
from bioattn.interpret.maps.upsampling import upsample
from bioattn.interpret.tracks.layout import PromoterPlaces, Stretch
from bioattn.interpret.tracks.settings import Track
from bioattn.io.files import text_output
from bioattn.system.signals import StopRequest

STRAND_COLOURS = {"+": (0, 114, 178), "-": (213, 94, 0)}
LOSS_COLOUR = (120, 120, 120)
"""Below 0. Blue, vermilion and grey of Okabe and Ito (2008): told apart by everybody."""
TABLE_COLUMNS = ("chrom", "start", "end", "gene_id", "value", "strand", "window_start", "window_end")
"""Columns of the table; the fifth is called after what it holds."""
TABLE_PROMOTERS = 512
"""Promoters whose rows are formatted at a time."""
PACKING = 6
"""gzip level: 9 takes twice the time for 2 % less."""


class WrittenFile(NamedTuple):
    """One file of a track."""

    file: str
    format: TrackFormat
    strand: str | None
    """None: both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackValues:
    """Values of one track: attention or contributions for a treatment, or the difference from a reference."""

    maps: PositionMaps
    track: Track
    upsampling: Upsampling
    overlapping: Overlapping
    means: NDArray[np.float32] | None
    """(samples, K) mean over all treatments where that is the reference."""
    stop: StopRequest

    @property
    def signed(self) -> bool:
        """Whether values can be below 0."""
        return self.track.reference is not None or self.maps.contributions

    @property
    def quantity(self) -> str:
        """What the values of the table are called."""
        if self.track.reference is not None:
            return "difference"
        return "contribution" if self.maps.contributions else "attention"

    def of_bins(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values (B, K) of every bin of promoters by ascending sample numbers."""
        maps_BK = self.maps.read(samples, self.track.treatment)
        return maps_BK if self.track.reference is None else maps_BK - self._reference(samples)

    def of_bases(self, stretch: Stretch) -> NDArray[np.float64]:
        """Values of the covered bases of a stretch; overlaps are settled first, then the reference subtracted."""
        self.stop.check()
        along = self._along(self.maps.read(stretch.samples, self.track.treatment), stretch)
        if self.track.reference is None:
            return along
        return along - self._along(self._reference(stretch.samples), stretch)

    def _reference(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.means is not None:
            return self.means[samples].astype(np.float64)
        return self.maps.read(samples, self.track.reference)

    def _along(self, maps_BK: NDArray[np.float64], stretch: Stretch) -> NDArray[np.float64]:
        """Values of the covered bases of a stretch, along the chromosome, from the maps of its promoters."""
        values_BL = upsample(
            maps_BK,
            self.maps.key_edges,
            self.maps.attention.window_length,
            self.upsampling,
            self.maps.receptive_field,
        )
        if stretch.strand == "-":
            values_BL = values_BL[:, ::-1]
        along = np.zeros(stretch.bases)
        if self.overlapping is Overlapping.MAX:
            along.fill(-np.inf)
        number = np.zeros(stretch.bases)
        for first, length, window, offset in stretch.pieces:
            part, values = along[first : first + length], values_BL[window, offset : offset + length]
            match self.overlapping:
                case Overlapping.NEAREST_GENE:
                    part[:] = values
                case Overlapping.MAX:
                    np.maximum(part, values, out=part)
                case Overlapping.MEAN:
                    part += values
                    number[first : first + length] += 1
        return along / number if self.overlapping is Overlapping.MEAN else along


def write_strand(
    folder: Path,
    strand: str,
    stretches: Sequence[Stretch],
    values: TrackValues,
    *,
    formats: Sequence[TrackFormat],
    gzip: bool,
    lengths: Mapping[str, int],
    note: str,
) -> list[WrittenFile]:
    """Write bedGraph, bigWig or both of one strand. note: for the track line.

    Raises: BioattnError when a file cannot be written.
    """
    track = values.track
    base = f"{track.stem}.{STRANDS[strand]}"
    written: list[WrittenFile] = []
    with ExitStack() as outputs:
        text: TextIO | None = None
        if TrackFormat.BEDGRAPH in formats:
            name = f"{base}.bedgraph{'.gz' if gzip else ''}"
            text = cast(TextIO, outputs.enter_context(text_output(folder / name, level=PACKING)))
            text.write(
                track_line(
                    f"{track.title} ({strand})",
                    note,
                    STRAND_COLOURS[strand],
                    LOSS_COLOUR if values.signed else None,
                )
            )
            written.append(WrittenFile(name, TrackFormat.BEDGRAPH, strand))

        def blocks() -> Iterator[Intervals]:
            for stretch in stretches:
                intervals = intervals_of(stretch, values.of_bases(stretch))
                if text is not None:
                    write_intervals(text, intervals)
                yield intervals

        if TrackFormat.BIGWIG in formats:
            name = f"{base}.bw"
            write_bigwig(folder / name, lengths, blocks())
            written.append(WrittenFile(name, TrackFormat.BIGWIG, strand))
        else:
            for _ in blocks():
                pass
    return written


def write_table(
    folder: Path, places: PromoterPlaces, values: TrackValues, *, gzip: bool
) -> list[WrittenFile]:
    """Write the value of every bin of every promoter, both strands, in file order.

    A row is a bin: where it lies on the chromosome (0-based, half-open, cut down to the window), the gene, the
    value, its strand, and where the bin lies in the window, 5'→3'. Bins outside the chromosome or the promoter
    have no row.
    """
    track = values.track
    name = f"{track.stem}.genes.tsv{'.gz' if gzip else ''}"
    columns = [values.quantity if column == "value" else column for column in TABLE_COLUMNS]
    with text_output(folder / name, level=PACKING) as file:
        file.write("\t".join(columns) + "\n")
        for begin in range(0, len(places.windows.samples), TABLE_PROMOTERS):
            part = slice(begin, begin + TABLE_PROMOTERS)
            values.stop.check()
            _write_rows(cast(TextIO, file), places, part, values)
    return [WrittenFile(name, TrackFormat.TSV, None)]


def _write_rows(file: TextIO, places: PromoterPlaces, part: slice, values: TrackValues) -> None:
    lows, highs = values.maps.key_edges[:-1], values.maps.key_edges[1:]
    window_length = values.maps.attention.window_length
    origins = places.windows.origins[part, None]
    reverse = places.reverse[part, None]
    starts_BK = origins + np.where(reverse, window_length - highs, lows)
    ends_BK = origins + np.where(reverse, window_length - lows, highs)
    starts_BK = np.clip(starts_BK, places.windows.starts[part, None], places.windows.ends[part, None])
    ends_BK = np.clip(ends_BK, places.windows.starts[part, None], places.windows.ends[part, None])
    lines = []
    # Nine digits tell every float32 from its neighbours.
    # + 0.0: a negative zero reads as "-0".
    values_BK = values.of_bins(places.windows.samples[part]) + 0.0
    windows = [f"{low}\t{high}\n" for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
    for row, (chrom, gene, minus) in enumerate(
        zip(places.chroms[part], places.gene_ids[part], places.reverse[part], strict=True)
    ):
        middle, tail = f"\t{gene}\t", "\t-\t" if minus else "\t+\t"
        for start, end, value, window in zip(
            starts_BK[row].tolist(), ends_BK[row].tolist(), values_BK[row].tolist(), windows, strict=True
        ):
            if start < end:
                lines.append(f"{chrom}\t{start}\t{end}{middle}{value:.9g}{tail}{window}")
    file.write("".join(lines))


def intervals_of(stretch: Stretch, along: NDArray[np.float64]) -> Intervals:
    """Runs of equal values (as float32, which is what bigWig holds) along a stretch."""
    values = along.astype(np.float32)
    begins = np.ones(len(values), dtype=np.bool_)
    begins[1:] = values[1:] != values[:-1]
    begins[stretch.island_offsets[:-1]] = True
    firsts = np.flatnonzero(begins)
    lengths = np.diff(np.concatenate([firsts, [len(values)]]))
    island = np.searchsorted(stretch.island_offsets, firsts, side="right") - 1
    starts = firsts + (stretch.island_starts - stretch.island_offsets[:-1])[island]
    return Intervals(stretch.chrom, starts, starts + lengths, values[firsts])
