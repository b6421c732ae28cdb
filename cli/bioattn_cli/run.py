"""`bioattn run …`: run a trained model on new input."""

import typer

app = typer.Typer(help="Run a trained model on new input.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _verb() -> None:
    """Run a trained model on new input."""
