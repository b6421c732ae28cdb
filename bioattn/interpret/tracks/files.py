"""Writing the files of one track: bedGraph and bigWig of a strand in one pass, and the table of exact values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.bedgraph import Intervals, checked_intervals, track_line, write_intervals
from bioattn.formats.bigwig import write_bigwig
from bioattn.interpret.tracks.choice import Track
from bioattn.interpret.tracks.layout import Stretch
from bioattn.interpret.tracks.promoter_places import PromoterPlaces
from bioattn.interpret.tracks.track_folder import STRANDS, TrackFormat
from bioattn.interpret.tracks.values import intervals_of
from bioattn.io.files import text_output

STRAND_COLOURS = {"+": (0, 114, 178), "-": (213, 94, 0)}
LOSS_COLOUR = (120, 120, 120)
"""Below 0 in difference tracks. Blue, vermilion and grey of Okabe and Ito (2008): told apart by everybody."""
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


def write_strand(
    folder: Path,
    track: Track,
    strand: str,
    stretches: Sequence[Stretch],
    values: Callable[[Stretch], NDArray[np.float64]],
    *,
    formats: Sequence[TrackFormat],
    gzip: bool,
    lengths: Mapping[str, int],
    note: str,
) -> list[WrittenFile]:
    """Write bedGraph, bigWig or both of one strand. values: of the bases of a stretch. note: for the track line.

    Raises: BioattnError when a file cannot be written; what `values` raises.
    """
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
                    LOSS_COLOUR if track.reference is not None else None,
                )
            )
            written.append(WrittenFile(name, TrackFormat.BEDGRAPH, strand))

        def blocks() -> Iterator[Intervals]:
            for stretch in stretches:
                intervals = intervals_of(stretch, values(stretch))
                if text is not None:
                    write_intervals(text, intervals)
                yield intervals

        if TrackFormat.BIGWIG in formats:
            name = f"{base}.bw"
            write_bigwig(folder / name, lengths, blocks())
            written.append(WrittenFile(name, TrackFormat.BIGWIG, strand))
        else:
            for _ in checked_intervals(blocks()):
                pass
    return written


def write_table(
    folder: Path,
    track: Track,
    places: PromoterPlaces,
    key_edges: NDArray[np.int64],
    window_length: int,
    maps: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    *,
    gzip: bool,
) -> list[WrittenFile]:
    """Write the weight of every bin of every promoter, both strands, in file order.

    A row is a bin: where it lies on the chromosome (0-based, half-open, cut down to the window), the gene, the
    value, its strand, and where the bin lies in the window, 5'→3'. Bins outside the chromosome or the promoter
    have no row. maps: (B, K) of promoters by sample numbers.
    """
    name = f"{track.stem}.genes.tsv{'.gz' if gzip else ''}"
    columns = [track.quantity if column == "value" else column for column in TABLE_COLUMNS]
    with text_output(folder / name, level=PACKING) as file:
        file.write("\t".join(columns) + "\n")
        for begin in range(0, len(places.samples), TABLE_PROMOTERS):
            part = slice(begin, begin + TABLE_PROMOTERS)
            _write_rows(
                cast(TextIO, file), places, part, key_edges, window_length, maps(places.samples[part])
            )
    return [WrittenFile(name, TrackFormat.TSV, None)]


def _write_rows(
    file: TextIO,
    places: PromoterPlaces,
    part: slice,
    key_edges: NDArray[np.int64],
    window_length: int,
    maps_BK: NDArray[np.float64],
) -> None:
    lows, highs = key_edges[:-1], key_edges[1:]
    origins = places.origins[part, None]
    reverse = places.reverse[part, None]
    starts_BK = origins + np.where(reverse, window_length - highs, lows)
    ends_BK = origins + np.where(reverse, window_length - lows, highs)
    starts_BK = np.clip(starts_BK, places.starts[part, None], places.ends[part, None])
    ends_BK = np.clip(ends_BK, places.starts[part, None], places.ends[part, None])
    lines = []
    # Nine digits tell every float32 from its neighbours.
    # + 0.0: a negative zero reads as "-0".
    values_BK = maps_BK + 0.0
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
