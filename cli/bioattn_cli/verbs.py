"""What --help shows: of the program and its verbs all commands, of a command examples that can be copied."""

import inspect
import re
import textwrap
from typing import Any

from typer.core import TyperGroup

_WHOLE = 10_000
"""Longer than any sentence, so that none is cut."""
_EXAMPLES = ("bioattn ", "modisco ")
"""How a paragraph begins that is a command."""


def help_text(docstring: str | None) -> str:
    """A docstring whose examples are not filled like prose, but lines of 80 columns that a shell joins again."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(_example(text) if text.startswith(_EXAMPLES) else text for text in paragraphs)


def _example(command: str) -> str:
    # textwrap does not break lines at no-break spaces: an option stays with its value.
    words = re.sub(r" (--?\S+) (?!-)", " \\1\u00a0", " ".join(command.split()))
    lines = textwrap.wrap(words, 76, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return "\b\n" + " \\\n".join(lines).replace("\u00a0", " ")  # \b: leave these lines alone


class Verb(TyperGroup):
    """A group of commands whose --help shows the first sentence of each in full, on as many lines as it takes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Without the cut to one line that typer makes."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
