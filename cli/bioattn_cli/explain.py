"""`bioattn explain …`: what a model used, and whether its attention may be believed."""

import typer

from bioattn_cli.verbs import Verb

app = typer.Typer(
    cls=Verb,
    help="What a model used, and whether its attention may be believed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _verb() -> None:
    """What a model used, and whether its attention may be believed."""
