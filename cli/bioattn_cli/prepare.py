"""`bioattn prepare …`: turn the files people have into inputs (promoters, datasets)."""

import typer

app = typer.Typer(
    help="Turn the files people have into inputs (promoters, datasets).",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _verb() -> None:
    """Turn the files people have into inputs (promoters, datasets)."""
