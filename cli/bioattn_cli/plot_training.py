"""`bioattn plot training`: losses and validation figures of one run or several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.options import command
from bioattn_cli.plot_options import DpiOption, FigureOption, WidthOption, draw
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def training(
    reporter: Reporter,
    runs: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Model folders, or their history.csv.")],
    output: FigureOption,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="COLUMN",
            help="A column of history.csv; can be repeated [default: correlation and its specific part].",
        ),
    ] = None,
    width: WidthOption = 180,
    dpi: DpiOption = 300,
) -> None:
    """Draw training curves: losses, and how well validation genes are predicted.

    A dot marks the epoch whose weights were kept.
    """

    def make() -> "Figure":
        from bioattn.figures.training_curves import draw_training, read_history

        return draw_training([read_history(path) for path in runs], width, metric)

    draw(reporter, output, {f"run {number}": path for number, path in enumerate(runs)}, dpi, make)


def register(app: typer.Typer) -> None:
    """Add the command to `bioattn plot`."""
    command(app, "training")(training)
