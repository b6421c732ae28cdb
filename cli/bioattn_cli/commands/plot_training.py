"""`bioattn plot training`: losses and validation figures of one run or several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.command import Input
from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot training")
def training(
    reporter: Reporter,
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="MODEL", help="Model folders, or their history.csv."),
        Input(name="run {}", first_number=0),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="COLUMN",
            help="A column of history.csv; can be repeated [default: correlation and its specific part].",
        ),
    ] = None,
    width: WidthOption = 180,
) -> "Figure":
    """Draw training curves: losses and validation metrics.

    A dot marks the epoch whose weights were kept.
    """
    from bioattn.figures.training_curves import draw_training
    from bioattn.views.training_history import read_history

    return draw_training([read_history(path) for path in runs], width, metric)
