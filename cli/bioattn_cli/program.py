"""The program's commands as typer has them, and how --help and wrong usage read.

Built when `main` needs it: the imports of all commands take longer than `bioattn --version` should.
"""

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from bioattn import __version__
from bioattn.errors import SettingsError
from bioattn.models.family import families
from bioattn_cli import commands
from bioattn_cli.command import COMMANDS, GROUPS, Result, with_report
from bioattn_cli.commands.families import settings_command, train

VERBS = {
    "prepare": "Prepare inputs: promoters, alignments and datasets for training.",
    "train": "Train a model from a prepared dataset.",
    "run": "Run a trained model on new input.",
    "generate": "Generate sequences with a trained model.",
    "export": "Write models and results as files for other tools.",
    "explain": "Explain what a model used, and check whether its attention can be believed.",
    "plot": None,
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
    wrapper = textwrap.TextWrapper(
        76, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    for place, text in enumerate(paragraphs):
        if text.startswith(_EXAMPLES):
            # textwrap does not break lines at no-break spaces: an option stays with its value.
            lines = wrapper.wrap(re.sub(r" (--?\S+) (?!-)", " \\1\u00a0", " ".join(text.split())))
            # \b: leave these lines alone
            paragraphs[place] = "\b\n" + " \\\n".join(lines).replace("\u00a0", " ")
    return "\n\n".join(paragraphs)


_BaseContext: Any = TyperCommand.context_class
"""typer has it from click, or a copy of click inside it: which depends on the version."""


_wrapper = importlib.import_module(f"{_BaseContext.__module__.rpartition('.')[0]}._textwrap").TextWrapper
_wrapper.wordsep_re = (
    _wrapper.wordsep_simple_re
)  # lines do not break at hyphens, which option names are full of


class Command(TyperCommand):
    """A command whose --help shows its arguments and options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Inputs, outputs and so on, as the parameters say."""
        records: dict[str, list[Any]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                records[getattr(parameter, "rich_help_panel", None) or GROUPS[-1]].append(record)
        for group, rows in records.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl(rows)


class Verb(TyperGroup):
    """A group of commands whose --help shows the first sentence of each in full, on as many lines as it takes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Without the cut to one line that typer makes."""
        rows = [(name, command.get_short_help_str(_WHOLE)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


_UsageError: Any = typer.BadParameter.__base__


@contextmanager
def as_our_errors() -> Iterator[None]:
    """Raise SettingsError for a command line that typer refuses, SystemExit where it has shown help."""
    try:
        yield
    except typer.Exit as stop:
        raise SystemExit(stop.exit_code) from stop
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a verb alone
            error.show()
            raise SystemExit(error.exit_code) from error
        words = " ".join(error.format_message().split()).rstrip(".?").partition(", unable to parse")[0]
        for theirs, ours in _OTHER_WORDS:
            words = words.replace(theirs, ours)
        refused = getattr(error.__cause__, "errors", None)  # pydantic, which names no value
        if refused is not None:
            words = words.replace("Input should", f"{refused()[0]['input']!r} should")
        hint = "" if error.ctx is None else f"; see `{error.ctx.command_path} --help`"
        raise SettingsError(words[:1].lower() + words[1:] + hint) from error


_OTHER_WORDS = (
    ("Value error, ", ""),
    (". Did you", ", did you"),
    ("(Possible", "(possible"),
    ("command 'predict'", "command 'predict', did you mean 'run'"),  # what other programs call it
)
"""How typer begins a remark, and how we do."""


class _WhenAsked(UserDict[str, Any]):
    """What builds commands, by name, when they are asked for: all together take longer than a start should."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name]()


@cache
def program() -> Any:
    """All commands, built once in a process that calls `main` again and again.

    Raises: BioattnError when a family cannot be used.
    """
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"{commands.__name__}.{module.name}")
    for family in families().values():
        for verb, kind in family.settings.items():
            execute = partial(train, family) if verb == "train" else getattr(family, verb)
            settings_command(f"{verb} {family.nouns.get(verb, family.name)}", kind, execute)
    root = typer.Typer(
        name="bioattn",
        cls=Verb,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"max_content_width": _WHOLE},
    )
    root.callback()(_root)
    verbs: dict[str, dict[str, Callable[..., Result]]] = {}
    for words, function in COMMANDS.items():
        verb, _, noun = words.partition(" ")
        verbs.setdefault(verb, {})[noun] = function
    built: Any = typer.main.get_command(root)
    built.commands = _WhenAsked({verb: cache(partial(_verb, verb, verbs[verb])) for verb in VERBS})
    return built


def _verb(name: str, functions: Mapping[str, Callable[..., Result]]) -> Any:
    """A verb with its nouns, or a command by itself. functions: by noun; "" of a command by itself."""
    if "" in functions:
        return _command(name, functions[""])
    alone = typer.Typer(
        name=name,
        cls=Verb,
        help=VERBS[name],
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )
    alone.callback()(lambda: None)  # so that typer makes a group of it
    verb: Any = typer.main.get_command(alone)
    verb.commands = _WhenAsked(
        {noun: cache(partial(_command, noun, function)) for noun, function in sorted(functions.items())}
    )
    return verb


def _command(name: str, function: Callable[..., Result]) -> Any:
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, cls=Command, help=help_text(function.__doc__))(with_report(function))
    return typer.main.get_command(alone)


def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Train and run attention models on biological sequences, and store every attention map."""
    if version:
        typer.echo(f"bioattn {__version__}")
        raise typer.Exit
