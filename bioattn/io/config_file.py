"""Frozen dataclass settings from TOML or JSON, with errors that name the file and the key."""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import read_lines

T = TypeVar("T")
OPTIONS = "options"
"""The source of settings that the command line alone gave."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises: FormatError when it does not parse."""
    try:
        return tomllib.loads("\n".join(line for _, line in read_lines(path)))
    except RecursionError as error:
        raise FormatError(f"{path}: not valid TOML (nested too deeply)") from error
    except ValueError as error:  # TOMLDecodeError is one, and so is what too many digits raise
        raise FormatError(f"{path}: not valid TOML ({str(error).partition(';')[0]})") from error


def settings_error(source: str, sentence: str) -> BioattnError:
    """A wrong setting: SettingsError when the command line alone gave it, FormatError when a file did."""
    kind = SettingsError if source == OPTIONS or source.startswith("--") else FormatError
    return kind(f"{source}: {sentence}")


def build(kind: type[T], values: Mapping[str, Any], source: str) -> T:
    """Make an instance of the dataclass `kind` from plain values; strings become enums, lists
    tuples, tables dataclasses.

    source: `OPTIONS`, an option, or the file. Raises: as `settings_error`, naming the key that is unknown or of
    the wrong type, or what `kind` itself objects to.
    """
    try:
        return _build(kind, values)
    except SettingsError as error:
        raise settings_error(source, str(error)) from error


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"
            raise SettingsError(f"unknown setting {key!r}{hint}")
        arguments[key] = _convert(value, hints[key], key)
    try:
        return kind(**arguments)
    except TypeError as error:
        raise SettingsError(str(error)) from error


def require(settings: object, names: Iterable[str], holds: Callable[[Any], bool], rule: str) -> None:
    """Check fields of a dataclass; None is left alone.

    Raises: SettingsError with `rule`, such as "be at least 1", for a field whose value `holds` is false of.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None and not holds(value):
            raise SettingsError(f"{name} is {value}; it must {rule}")


def _convert(value: Any, hint: Any, where: str) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
        return None if value is None else _convert(value, options[0], where)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{where} is {value!r}; a table of settings is needed")
        try:
            return _build(typing.cast(type, hint), value)
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from error
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        try:
            return hint(value)
        except ValueError:
            raise SettingsError(f"{where} is {value!r}; choose from {', '.join(hint)}") from None
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        variadic = len(inner) == 2 and inner[1] is Ellipsis
        if not isinstance(value, (list, tuple)) or (not variadic and len(value) != len(inner)):
            raise SettingsError(
                f"{where} is {value!r}; a list of {'values' if variadic else len(inner)} is needed"
            )
        return tuple(
            _convert(item, inner[0] if variadic else inner[i], where) for i, item in enumerate(value)
        )
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (
        not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
    ):
        raise SettingsError(f"{where} is {value!r}; a value of type {hint.__name__} is needed")
    return value
