"""`bioattn export motifs`: what attention and attribution look at, as motifs."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn.choices import parse_heads
from bioattn_cli.choice_options import (
    AveragedHeadsOption,
    AveragedSitesOption,
    GenesOption,
    TreatmentsOption,
)
from bioattn_cli.command import Input, Record, command
from bioattn_cli.options import FolderOption, ForceOption, SeedOption
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from bioattn.formats.motif import Motif


@command("export motifs")
def motifs(
    reporter: Reporter,
    output: FolderOption,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Attention HDF5 of promoters, attribution HDF5, or one of each."),
        Input(name="file_{}"),
    ] = None,
    promoters: Annotated[
        Path | None,
        typer.Option(metavar="FASTA", help="The promoters; attention and --model need their sequences."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also show the first layer of this model as motifs.")
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Motifs to compare with: MEME, JASPAR or TRANSFAC (extra `motif`)."
        ),
    ] = None,
    treatment: TreatmentsOption = None,
    genes: GenesOption = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Search where a treatment gains against this one, or against the `mean` over all "
            "[default: search where attention is highest; compare with mean].",
        ),
    ] = None,
    sites: AveragedSitesOption = None,
    heads: AveragedHeadsOption = None,
    max_seqlets: Annotated[
        int, typer.Option(min=1, help="Number of promoter stretches searched for each treatment.")
    ] = 1000,
    max_motifs: Annotated[int, typer.Option(min=1, help="Most motifs for each treatment.")] = 5,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> Record:
    """Find the motifs that a model attends to, and test them for each treatment.

    The stretches of promoters with the highest attention (or attribution) are searched for words that other
    promoters have less often at the same positions; similar words of several treatments become one motif. The
    folder OUTPUT gets motifs.meme, motifs.tsv with matches to --database, treatments.tsv with a test of each motif
    in each treatment against its reference, edges.tsv from motif to gene, and logos.

    bioattn export motifs attention.h5 explain.h5 --promoters promoters.fa --database JASPAR.meme -o motifs
    """
    from bioattn.interpret.motifs.export import export_motifs
    from bioattn.interpret.motifs.source import MotifSettings
    from bioattn.text import counted

    settings = MotifSettings(
        sites=tuple(sites or ("*",)),
        heads=parse_heads(heads),
        against=against,
        max_seqlets=max_seqlets,
        max_motifs=max_motifs,
        seed=seed,
    )
    has_matplotlib = importlib.util.find_spec("matplotlib") is not None
    if not has_matplotlib:
        reporter.warn("no logos: they need matplotlib (pip install 'bioattn[plot]')")
    summary = export_motifs(
        files or [],
        output,
        settings,
        promoters=promoters,
        model=model,
        database=database,
        treatments=treatment or (),
        genes=genes or (),
        draw_logo=_draw_logo if has_matplotlib else None,
        force=force,
        progress=reporter.progress(),
    )
    found = ", ".join(f"{counted(number, 'motif')} of {source}" for source, number in summary.motifs.items())
    matched = "" if summary.matched is None else f"; {summary.matched:,} match the database with q < 0.05"
    return Record(
        f"wrote {output}: {found or 'no motif'}{matched}; {counted(summary.treatments, 'treatment')}, "
        f"{counted(summary.promoters, 'promoter')}, {counted(summary.edges, 'edge')}",
        motifs=summary.motifs,
        edges=summary.edges,
    )


def _draw_logo(motif: "Motif", path: Path) -> None:
    from bioattn.figures.motif_logos import draw_logos
    from bioattn.figures.output import write_figure

    write_figure(draw_logos([motif], 85.0), path)
