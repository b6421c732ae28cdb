"""Attention of promoters as tracks along chromosomes: bedGraph, bigWig, and the exact values of every promoter.

One track per treatment and strand, since windows of neighbouring genes overlap and neither format takes overlaps.
Everything streams: memory holds some thousand promoters of one treatment at a time.
"""

import logging
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MEAN
from bioattn.errors import BioattnError, Interrupted
from bioattn.formats.bigwig import LONGEST_CHROMOSOME
from bioattn.interpret.choices import Overlapping
from bioattn.interpret.file_kinds import STRANDS, TRACK_FOLDER, TrackFormat
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.interpret.tracks.files import TrackValues, WrittenFile, write_strand, write_table
from bioattn.interpret.tracks.layout import lay_out, place_promoters
from bioattn.interpret.tracks.settings import USUAL_DOWNSTREAM, Track, TrackSettings, choose_tracks
from bioattn.io.files import sha256_of, write_json
from bioattn.io.folders import atomic_folder
from bioattn.promoters.gene_ids import choose_genes
from bioattn.store.parts import require_free_space
from bioattn.store.reader import AttentionFile, open_attention
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes, percentage

LOGGER = logging.getLogger("bioattn")

_LINE_BYTES = {TrackFormat.BEDGRAPH: 36, TrackFormat.BIGWIG: 9, TrackFormat.TSV: 68}
"""Of an interval or row, about."""
_PACKED_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSummary:
    """Counts of what was written."""

    tracks: int
    promoters: int
    without_place: int
    files: int
    bytes: int


def export_tracks(
    attention: Path,
    output: Path,
    settings: TrackSettings,
    *,
    treatments: Sequence[str] = (),
    genes: Sequence[str] = (),
    chromosome_sizes: Path | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> TrackSummary:
    """Write the folder `output` of tracks (`docs/formats/tracks.md`) from an attention file over promoters.

    treatments: names, none = all. genes: ids or files of ids (`choose_genes`), none = all. chromosome_sizes: the
    genome's .fai, chrom.sizes or FASTA; without it bigWig says that each ends with its last window. force: replace
    a folder of tracks.

    Raises: BioattnError for attention without positions, places or what is asked for, a folder in the way, a full
    disk; SettingsError for settings that contradict each other; Interrupted on Ctrl-C and SIGTERM, with nothing
    kept.
    """
    own_names = TRACK_FOLDER.check_output(
        output, [attention, *([chromosome_sizes] if chromosome_sizes else [])], force=force
    )
    with open_attention(attention) as file:
        export = _Export(file, settings, treatments, genes, chromosome_sizes, progress)
        export.say()
        size = export.expected_bytes()
        LOGGER.info(f"{counted(len(export.tracks), 'track')} for each strand take about {human_bytes(size)}")
        require_free_space(
            output,
            size,
            "an estimate",
            "choose fewer --treatment or --format, --upsample nearest, --gzip or another disk",
        )
        progress.begin("tracks", len(export.tracks))
        try:
            with stop_on_signals() as request, atomic_folder(output, own_names) as folder:
                written = export.write(folder, request, progress)
                write_json(folder / TRACK_FOLDER.record, export.record(folder, written))
        except Interrupted as stop:
            raise Interrupted(f"{stop}; no tracks were kept, run again", stop.exit_code) from stop
        finally:
            progress.end()
    files = [output / each.file for _, several in written for each in several]
    return TrackSummary(
        tracks=len(export.tracks),
        promoters=len(export.places.windows.samples),
        without_place=export.places.without_place,
        files=len(files),
        bytes=sum(path.stat().st_size for path in files),
    )


class _Export:
    def __init__(
        self,
        attention: AttentionFile,
        settings: TrackSettings,
        treatments: Sequence[str],
        genes: Sequence[str],
        chromosome_sizes: Path | None,
        progress: Progress,
    ) -> None:
        self.attention = attention
        self.settings = settings
        self.lengths_known = chromosome_sizes is not None
        self.reader = position_maps(
            attention,
            settings.sites,
            settings.heads,
            value_weighted=settings.value_weighted,
            contributions=settings.contributions,
        )
        self.edges = self.reader.key_edges
        if settings.upsampling == "receptive-field" and self.reader.receptive_field is None:
            raise BioattnError(
                f"{attention.path}: says no single receptive field of its keys; choose another --upsample, or one "
                "site with --sites"
            )
        self.tracks = choose_tracks(attention, self.reader.treatments, treatments, settings.reference)
        given = attention.downstream if settings.downstream is None else settings.downstream
        self.downstream = USUAL_DOWNSTREAM if given is None else given
        self.downstream_known = given is not None
        known = [str(name) for name in attention.samples.index]
        self.places = place_promoters(
            attention,
            choose_genes(genes, known, attention.path) if genes else None,
            downstream=self.downstream,
            chromosome_sizes=chromosome_sizes,
            progress=progress,
        )
        chrom, length = max(self.places.lengths.items(), key=lambda each: each[1], default=("", 0))
        if TrackFormat.BIGWIG in settings.formats and length > LONGEST_CHROMOSOME:
            raise BioattnError(
                f"{chromosome_sizes or attention.path}: {chrom} has at least {length:,} bases, and bigWig ends at "
                f"{LONGEST_CHROMOSOME:,}; choose --format bedgraph,tsv"
            )
        self.layout = lay_out(self.places.by_strand, settings.overlapping)
        self.along = tuple(each for each in settings.formats if each is not TrackFormat.TSV)
        """Formats that need one value per base."""
        if (
            self.along
            and self.layout.overlapping_genes
            and settings.overlapping is Overlapping.NEAREST_GENE
            and self.downstream > attention.window_length
        ):
            raise BioattnError(
                f"--downstream {self.downstream}: the windows have {attention.window_length} bases; give what "
                "`prepare promoters` was told"
            )

    def say(self) -> None:
        places, layout, settings = self.places, self.layout, self.settings
        if places.without_place:
            LOGGER.warning(
                f"{counted(places.without_place, 'promoter')} without a place on a chromosome "
                f"{'is' if places.without_place == 1 else 'are'} left out"
            )
        for strand, sign in STRANDS.items():
            if self.along and not layout.stretches[strand]:
                LOGGER.warning(f"no promoter lies on the {strand} strand: there are no {sign} tracks")
        if self.along and layout.overlapping_genes:
            said = "" if self.downstream_known else ", which the file does not say"
            settled = {
                Overlapping.NEAREST_GENE: "such a base goes to the gene whose position 0 is nearest, "
                f"{self.downstream:,} bases before the end of its window{said} (--downstream)",
                Overlapping.MAX: "such a base gets the largest value",
                Overlapping.MEAN: "such a base gets the mean",
            }[settings.overlapping]
            LOGGER.info(
                f"{layout.overlapping_genes:,} of {counted(len(places.gene_ids), 'window')} overlap another of "
                f"their strand, {percentage(layout.overlapping_share, 1)} of all bases; {settled}"
            )
        if not self.lengths_known and TrackFormat.BIGWIG in settings.formats:
            LOGGER.info(
                "chromosome lengths are not known (--chromosome-sizes): bigWig will say that each ends with its "
                "last window, which genome browsers do not mind"
            )

    def expected_bytes(self) -> int:
        bases = sum(stretch.bases for several in self.layout.stretches.values() for stretch in several)
        width = float(np.diff(self.edges).mean()) if self.settings.upsampling == "nearest" else 1.0
        rows = {
            TrackFormat.BEDGRAPH: bases / width,
            TrackFormat.BIGWIG: bases / width,
            TrackFormat.TSV: len(self.places.windows.samples) * (len(self.edges) - 1),
        }
        size = 0.0
        for each in self.settings.formats:
            packed = self.settings.gzip and each is not TrackFormat.BIGWIG
            size += rows[each] * _LINE_BYTES[each] * (_PACKED_SHARE if packed else 1)
        return math.ceil(size * len(self.tracks))

    def write(
        self, folder: Path, request: StopRequest, progress: Progress
    ) -> list[tuple[Track, list[WrittenFile]]]:
        means = self._means(folder, request)
        written = []
        for track in self.tracks:
            values = TrackValues(
                maps=self.reader,
                track=track,
                upsampling=self.settings.upsampling,
                overlapping=self.settings.overlapping,
                means=means,
                stop=request,
            )
            files: list[WrittenFile] = []
            if self.along:
                for strand, stretches in self.layout.stretches.items():
                    if stretches:
                        files += write_strand(
                            folder,
                            strand,
                            stretches,
                            values,
                            formats=self.along,
                            gzip=self.settings.gzip,
                            lengths=self.places.lengths,
                            note=self._note(track, strand),
                        )
            if TrackFormat.TSV in self.settings.formats:
                files += write_table(folder, self.places, values, gzip=self.settings.gzip)
            written.append((track, files))
            progress.advance()
        return written

    def _means(self, folder: Path, request: StopRequest) -> NDArray[np.float32] | None:
        """The mean over all treatments by sample number, if asked for; on disk, as there may be many promoters."""
        name = self.settings.reference
        if name != MEAN or name in self.attention.treatments:
            return None
        shape = (len(self.attention.samples), len(self.edges) - 1)
        with tempfile.TemporaryFile(dir=folder) as file:
            # The mapping keeps the disk space after the file is closed, and gives it back when it goes.
            means = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        for begin in range(0, len(self.places.windows.samples), 4096):
            request.check()
            some = self.places.windows.samples[begin : begin + 4096]
            means[some] = self.reader.read(some, None)
        return means

    def _note(self, track: Track, strand: str) -> str:
        what = "contribution to the response" if self.settings.contributions else "share of attention"
        if track.reference is not None:
            what = f"difference in {what.removeprefix('share of ')}"
        return f"{what} per base, promoters of the {strand} strand, {track.title}"

    def record(self, folder: Path, written: Sequence[tuple[Track, Sequence[WrittenFile]]]) -> dict[str, Any]:
        heads = {info.name: list(self.settings.heads or info.heads) for info in self.reader.sites}
        settings = asdict(self.settings) | {
            "sites": list(heads),
            "heads": heads,
            "downstream": self.downstream,
        }
        settings["formats"] = [str(each) for each in self.settings.formats]
        return {
            **TRACK_FOLDER.header,
            "model_sha256": self.attention.model_sha256,
            "input_sha256": self.attention.input_sha256,
            "attention_sha256": sha256_of(self.attention.path),
            "settings": settings,
            "window_length": self.attention.window_length,
            "promoters": len(self.places.windows.samples),
            "promoters_without_place": self.places.without_place,
            "overlapping_promoters": self.layout.overlapping_genes,
            "overlapping_share_of_bases": round(self.layout.overlapping_share, 6),
            "chromosome_lengths_known": self.lengths_known,
            "chromosomes": {chrom: self.places.lengths[chrom] for chrom, _ in self.places.by_strand},
            "tracks": [
                {
                    "treatment": track.treatment,
                    "reference": track.reference,
                    "files": [each._asdict() | {"sha256": sha256_of(folder / each.file)} for each in files],
                }
                for track, files in written
            ],
        }
