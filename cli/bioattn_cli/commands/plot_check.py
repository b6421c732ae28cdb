"""`bioattn plot check`: what `explain check` found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn_cli.plot_options import WidthOption, figure_command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@figure_command("plot check")
def draw(
    reporter: Reporter,
    check: Annotated[Path, typer.Argument(metavar="CHECK", help="JSON of `bioattn explain check`.")],
    width: WidthOption = 180,
) -> "Figure":
    """Draw the verdict on a model's attention: deletion and insertion curves, and each measure."""
    from bioattn.figures.check_curves import draw_check
    from bioattn.views.check import read_check

    return draw_check(read_check(check), width)
