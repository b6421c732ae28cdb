"""`bioattn plot logos`: motifs as sequence logos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot logos")
def logos(
    reporter: Reporter,
    motifs: Annotated[
        Path, typer.Argument(metavar="MOTIFS", help="Motifs: MEME, JASPAR or TRANSFAC, plain or compressed.")
    ],
    motif: Annotated[
        list[str] | None,
        typer.Option("--motif", metavar="NAME", help="A motif to draw; can be repeated [default: all]."),
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=1, help="Draw only the first N motifs of the file.")
    ] = None,
    reverse_complement: Annotated[
        bool, typer.Option("--reverse-complement", help="Draw the reverse complements.")
    ] = False,
    use_background: Annotated[
        bool,
        typer.Option(
            "--background", help="Information against the file's base frequencies instead of equal ones."
        ),
    ] = False,
    width: WidthOption = 180,
) -> "Figure":
    """Draw motifs as sequence logos, in bits, on one scale."""
    from bioattn.figures.motif_logos import choose_motifs, draw_logos
    from bioattn.formats.meme import read_meme

    database = read_meme(motifs)
    return draw_logos(
        choose_motifs(database.motifs, motif)[:first],
        width,
        background=database.background if use_background else None,
        reverse_complement=reverse_complement,
    )
