"""Promoter maps as tracks along chromosomes: bedGraph, bigWig, and the exact values of every promoter.

One track per treatment and strand, since windows of neighbouring genes overlap and neither format takes overlaps.
Memory holds the promoters of one chromosome, strand and treatment at a time.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names, require_reference
from bioattn.errors import BioattnError
from bioattn.formats.bigwig import LONGEST_CHROMOSOME, Intervals, track_line, write_bigwig, write_intervals
from bioattn.interpret.choices import ExportTracks, TrackFormat, TrackSettings
from bioattn.interpret.file_kinds import STRANDS, TRACK_FOLDER, file_stems
from bioattn.interpret.promoter_maps import PromoterMaps, attention_maps, chosen_quantity
from bioattn.interpret.track_layout import Stretch, lay_out, place_windows, read_chromosome_lengths
from bioattn.io.files import sha256_of, text_output
from bioattn.io.folders import atomic_folder
from bioattn.models.running import Running, RunReport
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.store.reader import Attention, open_attention
from bioattn.system.progress import watched
from bioattn.text import counted, human_bytes, listed

LOGGER = logging.getLogger("bioattn")

USUAL_DOWNSTREAM = 200
"""The default of `prepare promoters`."""
STRAND_COLOURS = {"+": (0, 114, 178), "-": (213, 94, 0)}
LOSS_COLOUR = (120, 120, 120)
"""Below 0. Blue, vermilion and grey of Okabe and Ito (2008): told apart by everybody."""
TABLE_PROMOTERS = 512
PACKING = 6
"""gzip level: 9 takes twice the time for 2 % less."""


def export_tracks(given: ExportTracks, running: Running) -> RunReport:
    """Write a folder of tracks (`docs/formats/tracks.md`) from an attention file over promoters.

    Raises: BioattnError for attention without positions or chromosomes, names that the file lacks, a folder in the
    way, a full disk; SettingsError for settings that contradict each other.
    """
    attention, output, settings = given.attention, given.output, given.settings
    chromosome_sizes, progress = given.chromosome_sizes, running.progress
    inputs = [attention, *([chromosome_sizes] if chromosome_sizes else [])]
    own_names = TRACK_FOLDER.check_output(output, inputs, force=given.force)
    with open_attention(attention) as file:
        wanted = chosen_quantity(weights=settings.weights, value_weighted=settings.value_weighted)
        maps = attention_maps(file, settings.sites, settings.heads, wanted)
        tracks = choose_tracks(maps, given.treatment, settings.reference)
        known_end = file.downstream if settings.downstream is None else settings.downstream
        downstream = USUAL_DOWNSTREAM if known_end is None else known_end
        samples = file.samples
        if given.genes:
            chosen = choose_genes(given.genes, GeneNames.in_samples(samples), attention)
            samples = samples[samples.index.isin(chosen)]
        known = None if chromosome_sizes is None else read_chromosome_lengths(chromosome_sizes, progress)
        unknown = [] if known is None else sorted(set(samples["chrom"]) - {"", *known})
        if unknown:
            raise BioattnError(
                f"{chromosome_sizes}: has no chromosome {unknown[0]!r}, on which promoters of {attention} lie; "
                f"it has {listed(list(known or ()))}"
            )
        placed = place_windows(
            samples, window_length=file.window_length, downstream=downstream, chromosome_lengths=known
        )
        if placed.empty:
            raise BioattnError(
                f"{attention}: no promoter asked for has a place on a chromosome, which tracks need; make the "
                "FASTA with `bioattn prepare promoters`, or write chrom:start-end(strand) behind its ids"
            )
        if without := len(samples) - len(placed):
            left_out = f"{'is' if without == 1 else 'are'} left out"
            LOGGER.warning(f"{counted(without, 'promoter')} without a place on a chromosome {left_out}")
        placed = placed.assign(sample=file.samples.index.get_indexer(placed.index))
        stretches = lay_out(placed)
        along = tuple(each for each in settings.formats if each is not TrackFormat.TSV)
        _report_layout(file, settings, placed, stretches, downstream, is_known=known_end is not None)
        if known is None and TrackFormat.BIGWIG in along:
            LOGGER.info(
                "chromosome lengths are not known (--chromosome-sizes): bigWig will say that each ends with "
                "its last window, which genome browsers do not mind"
            )
        ends = placed.groupby("chrom")["end"].max()
        lengths = known or {str(chrom): int(end) for chrom, end in ends.items()}
        chrom, length = max(lengths.items(), key=lambda item: item[1])
        if TrackFormat.BIGWIG in along and length > LONGEST_CHROMOSOME:
            raise BioattnError(
                f"{chromosome_sizes or attention}: {chrom} has at least {length:,} bases, and bigWig ends at "
                f"{LONGEST_CHROMOSOME:,}; choose --format bedgraph,tsv"
            )
        means = None
        if settings.reference == MEAN and MEAN not in file.treatments:
            means = np.zeros((len(file.samples), len(maps.key_edges) - 1), dtype=np.float32)
            means[placed["sample"]] = maps.read(placed["sample"].to_numpy(), None)
        heads = {site.name: list(settings.heads or file.sites[site.name].heads) for site in maps.sites}
        record: dict[str, Any] = {
            "model_sha256": file.model_sha256,
            "input_sha256": file.input_sha256,
            "attention_sha256": sha256_of(attention),
            "quantity": str(maps.quantity),
            "settings": asdict(settings)
            | {"sites": list(heads), "heads": heads, "downstream": downstream}
            | {"formats": [str(each) for each in settings.formats]},
            "window_length": file.window_length,
            "promoters": len(placed),
            "promoters_without_place": len(samples) - len(placed),
            "chromosome_lengths_known": chromosome_sizes is not None,
            "chromosomes": {chrom: lengths[chrom] for chrom in sorted(set(placed["chrom"]))},
            "tracks": [],
        }
        with atomic_folder(output, own_names) as folder:
            for track in watched(progress, "tracks", tracks):
                values = TrackValues(maps, track, settings, means)
                files: list[dict[str, str | None]] = []
                for strand in STRANDS if along else ():
                    of_strand = [stretch for stretch in stretches if stretch.strand == strand]
                    files += write_strand(folder, strand, of_strand, values, along, lengths)
                if TrackFormat.TSV in settings.formats:
                    files.append(write_table(folder, placed, values))
                named = {"treatment": track.treatment, "reference": track.reference}
                record["tracks"].append({**named, "files": files})
            TRACK_FOLDER.write(folder, record)
    written = [output / file["file"] for track in record["tracks"] for file in track["files"]]
    size = sum(path.stat().st_size for path in written)
    return RunReport(
        f"wrote {output}: {counted(len(tracks), 'track')} for each strand, "
        f"{counted(len(placed), 'promoter')}, {counted(len(written), 'file')}, {human_bytes(size)}",
        tracks=len(tracks),
        promoters=len(placed),
        without_place=len(samples) - len(placed),
    )


class Track(NamedTuple):
    """One track: the values of a treatment, or their difference from another's."""

    treatment: str | None
    """None: the model does not tell treatments apart."""
    reference: str | None
    """The values of this treatment are subtracted."""
    stem: str

    @property
    def title(self) -> str:
        """Title in genome browsers."""
        name = self.treatment or "all treatments"
        return name if self.reference is None else f"{name} minus {self.reference}"


def choose_tracks(maps: PromoterMaps, requested: Sequence[str], reference: str | None) -> list[Track]:
    """List the tracks in the order requested, treatments before differences."""
    known = maps.treatments
    if not maps.tells_apart:
        if requested or reference is not None:
            option = "--treatment" if requested else "--against"
            raise BioattnError(
                f"{maps.path}: its attention does not tell treatments apart, so there is one track for all; "
                f"leave {option} out"
            )
        return [Track(None, None, "all")]
    require_names("--treatment", requested, known, maps.path)
    require_reference("--against", reference, known, maps.path)
    names = list(requested or known)
    pairs: list[tuple[str, str | None]] = [(name, None) for name in names]
    if reference is not None:
        if reference in known and reference not in names:
            pairs.append((reference, None))
        others = [name for name in names if name != reference]
        if not others:
            raise BioattnError(f"--against {reference}: is the only treatment asked for; name others")
        pairs += [(name, reference) for name in others]
    stems = file_stems([name if other is None else f"{name}-vs-{other}" for name, other in pairs])
    return [Track(*pair, stem) for pair, stem in zip(pairs, stems, strict=True)]


def _report_layout(
    attention: Attention,
    settings: TrackSettings,
    placed: pd.DataFrame,
    stretches: Sequence[Stretch],
    downstream: int,
    *,
    is_known: bool,
) -> None:
    if settings.formats == (TrackFormat.TSV,):
        return
    for strand, sign in STRANDS.items():
        if not any(stretch.strand == strand for stretch in stretches):
            LOGGER.warning(f"no promoter lies on the {strand} strand: there are no {sign} tracks")
    if (placed["end"] - placed["start"]).sum() == sum(stretch.bases for stretch in stretches):
        return  # no two windows overlap
    if downstream > attention.window_length:
        raise BioattnError(
            f"--downstream {downstream}: the windows have {attention.window_length} bases; give what "
            "`prepare promoters` was told"
        )
    LOGGER.info(
        "where windows of a strand overlap, a base goes to the gene whose position 0 is nearest, "
        f"{downstream:,} bases before the end of its window"
        f"{'' if is_known else ', which the file does not say'} (--downstream)"
    )


class TrackValues(NamedTuple):
    """What decides the values of a track."""

    maps: PromoterMaps
    track: Track
    settings: TrackSettings
    means: NDArray[np.float32] | None
    """(samples, K) mean over all treatments where that is the reference."""

    @property
    def column(self) -> str:
        """Name of the values in tables."""
        if self.track.reference is not None:
            return "difference"
        return "contribution" if self.maps.signed else "attention"

    def of_bins(self, samples: NDArray[np.int64]) -> NDArray[np.float64]:
        """Values (B, K) of every bin of promoters by ascending sample numbers."""
        maps_BK = self.maps.read(samples, self.track.treatment)
        if self.track.reference is None:
            return maps_BK
        if self.means is not None:
            return maps_BK - self.means[samples].astype(np.float64)
        return maps_BK - self.maps.read(samples, self.track.reference)

    def of_bases(self, stretch: Stretch) -> NDArray[np.float64]:
        """Values of the covered bases of a stretch."""
        values_BL = self.maps.bases(self.of_bins(stretch.samples), self.settings.upsampling)
        if stretch.strand == "-":
            values_BL = values_BL[:, ::-1]
        along = np.zeros(stretch.bases)
        for first, length, window, offset in stretch.pieces:
            along[first : first + length] = values_BL[window, offset : offset + length]
        return along


def write_strand(
    folder: Path,
    strand: str,
    stretches: Sequence[Stretch],
    values: TrackValues,
    formats: Sequence[TrackFormat],
    lengths: Mapping[str, int],
) -> list[dict[str, str | None]]:
    """Write bedGraph, bigWig or both of one strand in one pass; returns the entries of `tracks.json`.

    lengths: of all chromosomes, for bigWig. Raises: BioattnError when a file cannot be written.
    """
    if not stretches:
        return []
    track = values.track
    written: list[dict[str, str | None]] = []
    base = f"{track.stem}.{STRANDS[strand]}"
    quantity = "contribution to the response" if values.maps.signed else "share of attention"
    if track.reference is not None:
        quantity = f"difference in {quantity.removeprefix('share of ')}"
    with ExitStack() as outputs:
        text: TextIO | None = None
        if TrackFormat.BEDGRAPH in formats:
            name = f"{base}.bedgraph{'.gz' if values.settings.gzip else ''}"
            text = cast(TextIO, outputs.enter_context(text_output(folder / name, level=PACKING)))
            signed = values.column != "attention"
            note = f"{quantity} per base, promoters of the {strand} strand, {track.title}"
            title = f"{track.title} ({strand})"
            text.write(track_line(title, note, STRAND_COLOURS[strand], LOSS_COLOUR if signed else None))
            written.append({"file": name, "format": TrackFormat.BEDGRAPH, "strand": strand})

        def blocks() -> Iterator[Intervals]:
            for stretch in stretches:
                intervals = stretch.intervals(values.of_bases(stretch))
                if text is not None:
                    write_intervals(text, intervals)
                yield intervals

        if TrackFormat.BIGWIG in formats:
            name = f"{base}.bw"
            write_bigwig(folder / name, lengths, blocks())
            written.append({"file": name, "format": TrackFormat.BIGWIG, "strand": strand})
        else:
            for _ in blocks():
                pass
    return written


def write_table(folder: Path, placed: pd.DataFrame, values: TrackValues) -> dict[str, str | None]:
    """Write the value of every bin of every promoter, both strands, in file order; returns its entry.

    A row is a bin: its interval on the chromosome (0-based, half-open, cut down to the window), the gene, the
    value, its strand, and its interval in the window, 5'→3'. Bins outside the chromosome or the promoter have no
    row.
    """
    name = f"{values.track.stem}.genes.tsv{'.gz' if values.settings.gzip else ''}"
    with text_output(folder / name, level=PACKING) as file:
        file.write(f"chrom\tstart\tend\tgene_id\t{values.column}\tstrand\twindow_start\twindow_end\n")
        for begin in range(0, len(placed), TABLE_PROMOTERS):
            file.writelines(_rows(placed.iloc[begin : begin + TABLE_PROMOTERS], values))
    return {"file": name, "format": TrackFormat.TSV, "strand": None}


def _rows(placed: pd.DataFrame, values: TrackValues) -> Iterator[str]:
    lows, highs = values.maps.key_edges[:-1], values.maps.key_edges[1:]
    window_length = values.maps.window_length
    origins, starts, ends = (placed[name].to_numpy()[:, None] for name in ("origin", "start", "end"))
    reverse = (placed["strand"] == "-").to_numpy()[:, None]
    starts_BK = np.clip(origins + np.where(reverse, window_length - highs, lows), starts, ends)
    ends_BK = np.clip(origins + np.where(reverse, window_length - lows, highs), starts, ends)
    # + 0.0: a negative zero reads as "-0".
    values_BK = values.of_bins(placed["sample"].to_numpy()) + 0.0
    windows = [f"{low}\t{high}\n" for low, high in zip(lows, highs, strict=True)]
    genes = zip(placed.index, placed["chrom"], placed["strand"], strict=True)
    for row, (gene, chrom, strand) in enumerate(genes):
        for start, end, value, window in zip(
            starts_BK[row].tolist(), ends_BK[row].tolist(), values_BK[row].tolist(), windows, strict=True
        ):
            if start < end:
                # Nine digits tell every float32 from its neighbours.
                yield f"{chrom}\t{start}\t{end}\t{gene}\t{value:.9g}\t{strand}\t{window}"
