"""`bioattn plot heads`: what every attention head looks at."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn.choices import parse_heads
from bioattn_cli.choice_options import HeadsOption
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot heads")
def heads(
    reporter: Reporter,
    attention: Annotated[
        Path, typer.Argument(metavar="ATTENTION", help="Attention HDF5 over promoters or alignments.")
    ],
    genes: Annotated[
        list[str] | None,
        typer.Option(
            "--genes",
            metavar="ID|FILE",
            help="Promoters: genes to average, or a file with one id per line; can be repeated [default: all].",
        ),
    ] = None,
    treatment: Annotated[
        list[str] | None,
        typer.Option(
            "--treatment",
            metavar="NAME",
            help="Promoters: a treatment to draw; can be repeated [default: all].",
        ),
    ] = None,
    sample: Annotated[
        str | None, typer.Option(metavar="ID", help="Alignments: which one [default: the only one].")
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option(
            "--sites",
            metavar="PATTERN",
            help="Attention sites; can be repeated [default: those with positions; for alignments '*.msa_row'].",
        ),
    ] = None,
    heads: HeadsOption = None,
    corrected: Annotated[
        bool,
        typer.Option(
            "--corrected",
            help="Alignments: symmetrise the maps and remove what a residue shares with all others (APC).",
        ),
    ] = False,
    upstream: Annotated[
        int | None,
        typer.Option(
            min=0, help="Promoters: bases of the window before position 0 [default: from the file]."
        ),
    ] = None,
    width: WidthOption = 180,
) -> "Figure":
    """Draw the attention of every head: of a promoter by treatment, of an alignment layer by layer.

    The number in brackets is the mean effective number of bins or keys of a row (2 to the power of its entropy): 1
    for a head that attends to one position, all of them for a uniform head.
    """
    from bioattn.errors import SettingsError
    from bioattn.figures.head_grid import draw_head_grid
    from bioattn.figures.head_maps import alignment_head_grid, promoter_head_grid
    from bioattn.figures.treatment_maps import read_treatment_maps, window_zero
    from bioattn.promoters.gene_ids import choose_genes
    from bioattn.store import open_attention
    from bioattn.text import counted

    kept = parse_heads(heads)
    with open_attention(attention) as file:
        if file.over_alignments:
            if genes or treatment or upstream is not None:
                raise SettingsError(
                    f"{attention}: holds alignments; choose with --sample, --sites and --heads"
                )
            grid = alignment_head_grid(file, sample, sites=sites, heads=kept, corrected=corrected)
        else:
            if sample is not None or corrected:
                raise SettingsError(
                    f"{attention}: holds promoters; --sample and --corrected are for alignments"
                )
            chosen = choose_genes(genes, file.samples.index, attention) if genes else None
            maps = read_treatment_maps(
                file,
                genes=chosen,
                treatments=treatment,
                sites=sites,
                heads=kept,
                progress=reporter.progress(),
            )
            zero = window_zero(maps.window_length, maps.downstream, upstream)
            several = f"mean over {counted(len(maps.genes), 'gene')}"
            title = maps.genes[0] if len(maps.genes) == 1 else several
            grid = promoter_head_grid(maps, title=title, zero=zero)
    return draw_head_grid(grid, width)
