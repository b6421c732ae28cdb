"""Verbs and their commands; what --help shows: of the program and its verbs all commands, of a command examples
that can be copied."""

import importlib
import inspect
import pkgutil
import re
import textwrap
from typing import Any

import typer
from typer.core import TyperGroup

from bioattn_cli import commands
from bioattn_cli.command import COMMANDS

VERBS = {
    "prepare": "Prepare inputs: promoters, alignments and datasets for training.",
    "train": "Train a model from a prepared dataset.",
    "run": "Run a trained model on new input.",
    "generate": "Generate sequences with a trained model.",
    "export": "Write models and results as files for other tools.",
    "explain": "Explain what a model used, and check whether its attention can be believed.",
    "plot": "Draw figures of results, as PNG, SVG or PDF.",
    "report": None,
    "inspect": None,
    "validate": None,
    "merge": None,
    "simulate": "Simulate inputs with known truth, and score attention against it.",
    "doctor": None,
}
"""Verbs as they follow each other in use, then what looks at files, machines and truth. None: a command by itself,
without nouns."""

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

    def list_commands(self, ctx: Any) -> list[str]:
        """By name."""
        return sorted(super().list_commands(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Without the cut to one line that typer makes."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def add_verbs(program: typer.Typer) -> None:
    """Give the program the verbs that have nouns, and import the modules of all commands."""
    for verb, text in VERBS.items():
        if text is not None:
            group = typer.Typer(cls=Verb, help=text, no_args_is_help=True, rich_markup_mode=None)
            group.callback()(lambda: None)  # a verb stays a verb, also with one command
            program.add_typer(group, name=verb)
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")


def add_commands(program: typer.Typer) -> None:
    """Give the program, or the verb it belongs to, every registered command that is not there yet."""
    verbs = {group.name: group.typer_instance for group in program.registered_groups}
    for words, function in COMMANDS.items():
        verb, _, noun = words.partition(" ")
        app = verbs[verb] if noun else program
        if app is not None and (noun or verb) not in [each.name for each in app.registered_commands]:
            app.command(noun or verb, help=help_text(function.__doc__))(function)
    for group in program.registered_groups:  # a verb that no family fills is not shown
        group.hidden = group.typer_instance is None or not group.typer_instance.registered_commands
