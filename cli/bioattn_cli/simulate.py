"""`bioattn simulate …`: make inputs whose truth is known."""

import typer

app = typer.Typer(help="Make inputs whose truth is known.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _verb() -> None:
    """Make inputs whose truth is known."""
