"""`bioattn plot heatmap`: treatments × positions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn_cli.export import parse_heads
from bioattn_cli.options import command
from bioattn_cli.plot_options import DpiOption, FigureOption, WidthOption, draw
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heatmap(
    reporter: Reporter,
    attention: Annotated[Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 over promoters.")],
    output: FigureOption,
    genes: Annotated[
        list[str] | None,
        typer.Option(
            "--genes",
            metavar="ID|FILE",
            help="Genes to average, or a file with an id a line; can be repeated [default: all].",
        ),
    ] = None,
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            "--treatment", metavar="NAME", help="A treatment to draw, can be repeated [default: all]."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Draw what the others have more than this treatment, or than the `mean` over treatments.",
        ),
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            "--sites", metavar="PATTERN", help="Attention sites, averaged; can be repeated [default: all]."
        ),
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="LIST", help="Heads to average, for example 0,2 [default: all].")
    ] = None,
    cluster: Annotated[
        bool, typer.Option(help="Order treatments by a tree of their maps, or as the file does.")
    ] = True,
    upstream: Annotated[
        int | None, typer.Option(min=0, help="Bases of the window before position 0.")
    ] = None,
    width: WidthOption = 180,
    dpi: DpiOption = 300,
) -> None:
    """Draw attention of all treatments by position as a heatmap.

    Of one gene or the mean over genes, which is what attention is by position alone. Treatments with similar maps
    stand together; their order is kept in the run record beside the figure.
    """

    def make() -> "tuple[Figure, dict[str, Any]]":
        from bioattn.figures.promoter_maps import read_promoter_maps, require_upstream
        from bioattn.figures.treatment_heatmap import cluster_treatments, draw_treatment_heatmap
        from bioattn.promoters.gene_choice import choose_genes
        from bioattn.store import open_attention
        from bioattn.wording import counted

        with open_attention(attention) as file:
            maps = read_promoter_maps(
                file,
                genes=choose_genes(genes, file.samples.index, attention) if genes else None,
                treatments=treatment,
                against=against,
                sites=sites,
                heads=parse_heads(heads),
                progress=reporter.progress(),
            )
        require_upstream(maps.window_length, upstream)
        title = maps.genes[0] if len(maps.genes) == 1 else f"mean over {counted(len(maps.genes), 'gene')}"
        shown = cluster_treatments(maps, cluster=cluster, title=title, zero=upstream)
        return draw_treatment_heatmap(shown, width), {"treatments": shown.treatments}

    draw(reporter, output, {"attention": attention}, dpi, make)


def register(app: typer.Typer) -> None:
    """Add the command to `bioattn plot`."""
    command(app, "heatmap")(heatmap)
