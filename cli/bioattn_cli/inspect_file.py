"""`bioattn inspect` and `bioattn validate`: what a file is, and whether it keeps its contract."""

import typer


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
