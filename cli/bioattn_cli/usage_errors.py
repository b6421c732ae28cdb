"""What typer finds wrong with a command line, said as every other error is: one sentence, exit code 2."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

from bioattn.errors import SettingsError
from bioattn_cli.command import is_reporting_process

_UsageError: Any = typer.BadParameter.__base__
"""typer has it from click, or a copy of click inside it: which depends on the version."""


@contextmanager
def own_usage_errors(arguments: Sequence[str]) -> Iterator[None]:
    """Raise SettingsError for a command line that typer refuses; a verb alone shows its help as ever."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        told = SettingsError(_sentence(error))
        # Processes that train together have one command line.
        told.is_reported_elsewhere = not is_reporting_process(arguments)
        raise told from error


def _sentence(error: Any) -> str:
    words = " ".join(error.format_message().split()).rstrip(".?").partition(", unable to parse")[0]
    for theirs, ours in (("Value error, ", ""), (". Did you", ", did you"), ("(Possible", "(possible")):
        words = words.replace(theirs, ours)
    refused = getattr(error.__cause__, "errors", None)  # pydantic, which names no value
    if refused is not None:
        words = words.replace("Input should", f"{refused()[0]['input']!r} should")
    hint = "" if error.ctx is None else f"; see `{error.ctx.command_path} --help`"
    return words[:1].lower() + words[1:] + hint
