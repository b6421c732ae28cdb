"""`bioattn plot …`: figures of results, as PNG, SVG or PDF."""

import typer

from bioattn_cli.verbs import Verb

app = typer.Typer(
    cls=Verb, help="Figures of results, as PNG, SVG or PDF.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _verb() -> None:
    """Figures of results, as PNG, SVG or PDF."""
