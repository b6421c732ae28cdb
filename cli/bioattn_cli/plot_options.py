"""What the commands of `bioattn plot` share: the figure's size, and how it is saved."""

import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureOption = Annotated[
    Path, typer.Option("--output", "-o", help="The figure: PNG, SVG or PDF by its name.")
]
WidthOption = Annotated[
    float,
    typer.Option(
        min=40, max=1000, help="Width in millimetres: 85 is one column of most journals, 180 are two."
    ),
]
DpiOption = Annotated[int, typer.Option(min=50, max=1200, help="Dots per inch of PNG.")]


def draw(
    reporter: Reporter,
    output: Path,
    inputs: Mapping[str, Path | None],
    dpi: int,
    make: Callable[[], "Figure | tuple[Figure, dict[str, Any]]"],
) -> None:
    """Check the output's name, make the figure, save it and its run record.

    make: returns the figure, alone or with what the run record says of it.
    """
    from bioattn.figures import require_figure_name, write_figure
    from bioattn.io.files import check_output, write_run_record

    begun = time.monotonic()
    require_figure_name(output)
    given = {name: path for name, path in inputs.items() if path is not None}
    check_output(output, given.values())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = make()
        figure, record = made if isinstance(made, tuple) else (made, {})
        write_figure(figure, output, dpi)
    if any("missing from font" in str(warning.message) for warning in caught):
        reporter.warn(
            "some letters of names are not in the figures' font (DejaVu Sans); boxes stand for them"
        )
    write_run_record(output, reporter.command, given, time.monotonic() - begun, **record)
    width, height = figure.get_size_inches() * 25.4
    reporter.say(f"wrote {output} ({width:.0f} × {height:.0f} mm)")
