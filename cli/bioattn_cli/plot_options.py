"""What the commands of `bioattn plot` share: the figure's file and size, and how it is saved."""

import functools
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn_cli.command import Output, Record, command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FigureOption = Annotated[
    Path, typer.Option("--output", "-o", help="Figure to write: PNG, SVG or PDF by its name."), Output.FILE
]
_DpiOption = Annotated[int, typer.Option(min=50, max=1200, help="Dots per inch of PNG.")]
WidthOption = Annotated[
    float,
    typer.Option(
        min=40, max=1000, help="Width in millimetres: 85 is one column of most journals, 180 are two."
    ),
]
Draw = Callable[..., "Figure | tuple[Figure, dict[str, Any]]"]
"""Makes a figure, alone or with what the run record says of it."""


def figure_command(words: str) -> Callable[[Draw], Draw]:
    """Register a function that makes a figure as the command `words`, which saves it; adds --output and --dpi."""

    def register(function: Draw) -> Draw:
        @functools.wraps(function)
        def run(reporter: Reporter, *, output: Path, dpi: int, **arguments: Any) -> Record:
            from bioattn.figures import require_figure_name, write_figure

            require_figure_name(output)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                made = function(reporter, **arguments)
                figure, figures = made if isinstance(made, tuple) else (made, {})
                write_figure(figure, output, dpi)
            if any("missing from font" in str(warning.message) for warning in caught):
                reporter.warn(
                    "some letters of names are not in the figures' font (DejaVu Sans); boxes stand for them"
                )
            width, height = figure.get_size_inches() * 25.4
            return Record(f"wrote {output} ({width:.0f} × {height:.0f} mm)", **figures)

        own = inspect.signature(function)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()
        ]
        added = [
            inspect.Parameter("output", inspect.Parameter.KEYWORD_ONLY, annotation=_FigureOption),
            inspect.Parameter("dpi", inspect.Parameter.KEYWORD_ONLY, annotation=_DpiOption, default=300),
        ]
        run.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*parameters[:2], added[0], *parameters[2:], added[1]]
        )
        command(words)(run)
        return function

    return register
