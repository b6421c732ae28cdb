"""How the program and its verbs list their commands under --help."""

from typing import Any

from typer.core import TyperGroup

_WHOLE = 10_000
"""Longer than any sentence, so that none is cut."""


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
