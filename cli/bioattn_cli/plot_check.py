"""`bioattn plot check`: what `explain check` found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.options import command
from bioattn_cli.plot_options import DpiOption, FigureOption, WidthOption, draw
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check(
    reporter: Reporter,
    result: Annotated[Path, typer.Argument(metavar="CHECK", help="JSON of `bioattn explain check`.")],
    output: FigureOption,
    width: WidthOption = 180,
    dpi: DpiOption = 300,
) -> None:
    """Draw the verdict on a model's attention: deletion and insertion curves, and each measure."""

    def make() -> "Figure":
        from bioattn.figures.check_curves import draw_check, read_check

        return draw_check(read_check(result), width)

    draw(reporter, output, {"check": result}, dpi, make)


def register(app: typer.Typer) -> None:
    """Add the command to `bioattn plot`."""
    command(app, "check")(check)
