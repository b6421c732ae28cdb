"""`bioattn train …`: train a model from a prepared dataset."""

import typer

app = typer.Typer(help="Train a model from a prepared dataset.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _verb() -> None:
    """Train a model from a prepared dataset."""
