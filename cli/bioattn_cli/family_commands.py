"""The commands that every model family brings along: `train FAMILY`, `run FAMILY`, …, made from its settings.

What a verb does for every family is declared once, in a module of `bioattn_cli.commands`:

    @family_verb("train")
    def train(reporter, family, settings): ...

Then `bioattn train NAME` is there for every family with `settings["train"]`: the fields of that dataclass are its
arguments and options, the dataclass's docstring is its help. The settings that `train` is given hold the options
alone; `with_config_file(settings)` (of `bioattn.models.settings`) puts what --config says beneath them.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import partial
from typing import Annotated, Any

import typer

from bioattn.models.family import Family, families
from bioattn.models.settings import Option, Settings, options_of
from bioattn_cli.command import COMMANDS, Input, Output, Record, command
from bioattn_cli.reporting import Reporter

Execute = Callable[[Reporter, Family, Any], Record | None]
"""Carries out a command of a family with its settings."""

_VERBS: dict[str, Execute] = {}


def family_verb(verb: str) -> Callable[[Execute], Execute]:
    """Have `register_families` make a command of this verb for every family with such settings."""

    def register(execute: Execute) -> Execute:
        _VERBS[verb] = execute
        return execute

    return register


def register_families() -> None:
    """Register the commands of families that are not there yet.

    Raises: BioattnError when a family cannot be used.
    """
    for verb, execute in _VERBS.items():
        for family in families().values():
            words = f"{verb} {family.nouns.get(verb, family.name)}"
            if verb in family.settings and words not in COMMANDS:
                settings_command(words, family.settings[verb], partial(_of_family, execute, family))


def settings_command(
    words: str, kind: type[Settings], execute: Callable[[Reporter, Any], Record | None]
) -> None:
    """Register a command whose arguments and options are the fields of `kind`, and whose help is its docstring."""

    def run(reporter: Reporter, **values: Any) -> Record | None:
        many = {name: tuple(values[name] or ()) for name in values if _holds_many(hints[name])}
        return execute(reporter, kind(**values | many))

    hints = typing.get_type_hints(kind)
    of_name = {each.name: each for each in fields(kind)}
    reporter = inspect.Parameter("reporter", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    own = [_parameter(of_name[each], hints[each], said) for each, said in options_of(kind).items()]
    run.__signature__ = inspect.Signature([reporter, *own])  # type: ignore[attr-defined]
    run.__doc__ = kind.__doc__
    command(words)(run)


def _of_family(execute: Execute, family: Family, reporter: Reporter, settings: Any) -> Record | None:
    return execute(reporter, family, settings)


def _parameter(field: "Field[Any]", hint: Any, said: Option) -> inspect.Parameter:
    """A field as a parameter of a function that typer reads."""
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    if _holds_many(hint):
        hint = list[typing.get_args(hint)[0]]  # type: ignore[misc]
        if default == ():
            hint, default = hint | None, None
    if said.is_argument:
        shown: Any = typer.Argument(metavar=said.metavar, help=said.help)
    else:
        # Of a flag that is off by default nothing like --no-force is offered.
        flags = said.flags or ((f"--{field.name.replace('_', '-')}",) if default is False else ())
        shown = typer.Option(*flags, help=said.help, metavar=said.metavar, min=said.min, max=said.max)
    role: Input | Output = Input(
        name=field.name if said.recorded is None else said.recorded, file=said.recorded_file
    )
    if said.writes is not None:
        role = Output[said.writes.name]
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, shown, role]
    )


def _holds_many(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple
