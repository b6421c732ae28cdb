"""`bioattn export tracks`: attention along chromosomes, for genome browsers."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.choices import parse_heads
from bioattn.interpret.choices import Overlapping, Upsampling
from bioattn_cli.choice_options import (
    AveragedHeadsOption,
    AveragedSitesOption,
    GenesOption,
    TreatmentsOption,
    UpsampleOption,
)
from bioattn_cli.command import Record, command
from bioattn_cli.options import FolderOption, ForceOption
from bioattn_cli.reporting import Reporter


@command("export tracks")
def tracks(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 of promoters (`export attention`).")
    ],
    output: FolderOption,
    treatment: TreatmentsOption = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--against",
            "--reference",
            metavar="NAME",
            help="Also write each treatment minus this one, or minus the `mean` over all treatments.",
        ),
    ] = None,
    genes: GenesOption = None,
    sites: AveragedSitesOption = None,
    heads: AveragedHeadsOption = None,
    value_weighted: Annotated[
        bool,
        typer.Option("--value-weighted", help="Weights times the norm of the value, scaled to sum 1."),
    ] = False,
    upsample: UpsampleOption = Upsampling.NEAREST,
    overlapping: Annotated[
        Overlapping, typer.Option(help="Value of a base in windows of several genes of one strand.")
    ] = Overlapping.NEAREST_GENE,
    downstream: Annotated[
        int | None,
        typer.Option(
            min=0, help="Bases of the windows from position 0 on [default: from the file, else 200]."
        ),
    ] = None,
    formats: Annotated[
        str,
        typer.Option(
            "--format", metavar="LIST", help="Formats to write; tsv: the weight of every bin of every gene."
        ),
    ] = "bigwig,bedgraph,tsv",
    compress: Annotated[bool, typer.Option("--gzip", help="Compress bedGraph and tables.")] = False,
    chromosome_sizes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The genome's .fai, chrom.sizes or FASTA: true chromosome lengths in bigWig."
        ),
    ] = None,
    force: ForceOption = False,
) -> Record:
    """Write attention along chromosomes, for IGV, JBrowse and UCSC.

    One bedGraph and one bigWig for every treatment and strand: the share of a promoter's attention on each base,
    means over heads. The folder also holds a table per treatment with every bin of every gene, and
    tracks.json, which lists the files. Where windows of one strand overlap, --overlapping chooses the value; the
    table has all windows.

    bioattn export tracks attention.h5 -o tracks --treatment heat --against control
    """
    from bioattn.formats.chromosome_lengths import read_chromosome_lengths
    from bioattn.interpret.tracks.export import export_tracks
    from bioattn.interpret.tracks.promoter_places import ChromosomeLengths
    from bioattn.interpret.tracks.settings import TrackSettings, parse_formats
    from bioattn.text import counted, human_bytes

    settings = TrackSettings(
        sites=tuple(sites or ("*",)),
        heads=parse_heads(heads),
        value_weighted=value_weighted,
        upsampling=upsample,
        overlapping=overlapping,
        downstream=downstream,
        reference=reference,
        formats=parse_formats(formats),
        gzip=compress,
    )
    chromosomes = None
    if chromosome_sizes is not None:
        lengths = read_chromosome_lengths(chromosome_sizes, reporter.progress())
        chromosomes = ChromosomeLengths(lengths=lengths, source=chromosome_sizes)
    summary = export_tracks(
        attention,
        output,
        settings,
        treatments=treatment or (),
        genes=genes or (),
        chromosomes=chromosomes,
        force=force,
        progress=reporter.progress(),
    )
    return Record(
        f"wrote {output}: {counted(summary.tracks, 'track')} for each strand, "
        f"{counted(summary.promoters, 'promoter')}, {counted(summary.files, 'file')}, "
        f"{human_bytes(summary.bytes)}",
        tracks=summary.tracks,
        promoters=summary.promoters,
        without_place=summary.without_place,
    )
