"""`bioattn export …`: turn models and results into files other tools read."""

import typer

app = typer.Typer(
    help="Turn models and results into files other tools read.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _verb() -> None:
    """Turn models and results into files other tools read."""
