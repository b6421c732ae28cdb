"""Settings: dataclasses whose fields are the options of a command and the keys of the TOML file of --config.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ToyConfig:
        channels: int = option("Width of the model.", default=8)
        depth: int = 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TrainToy(TrainingCommand):         (`Settings` with the options of every training)
        dataset: Path = argument("DATASET", "What the model learns from.")
        model: Mapping[str, Any] = table(ToyConfig)

The docstring of `TrainToy` is its help. `--channels 16`, `--config model.channels=16` and `channels = 16` in the
table [model] of a TOML file say the same; `depth` is set by the latter two. What was given arrives in `model`, as
defaults may depend on data.

A field's type decides what an option takes: a number, a string, a path, an enumeration (its values are the
choices), `bool` (a flag; with the default True also `--no-…`), or `tuple[X, ...]` (an option that can be
repeated). Nothing here imports torch.
"""

import dataclasses
import difflib
import numbers
import operator
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import read_lines

T = TypeVar("T")
OPTIONS = "options"
"""The source of settings that the command line alone gave."""

DECLARED = "bioattn.settings"
RUNNING = "Running"
"""The heading of options that say how a command works, and not what it makes."""


class Writes(StrEnum):
    """What is written to a path, and so what is checked before work begins."""

    FILE = "file"
    STREAM = "stream"
    """A file, or standard output for `-`."""
    FOLDER = "folder"
    """A folder; that it may be replaced is for its writer to check."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field stands on the command line."""

    help: str
    """Empty: only the TOML file sets it, by a key outside tables."""
    flags: tuple[str, ...] = ()
    """As typed, such as `--output` and `-o`; empty: made from the field's name."""
    metavar: str | None = None
    group: str | None = None
    """The heading of --help that it stands under; None: as path, table or none of both have it."""
    is_argument: bool = False
    min: float | None = None
    max: float | None = None
    wanted: str | None = None
    """For a setting that can also stand in the TOML file outside tables: what its value is, for messages."""
    parse: Callable[[str], Any] | None = None
    """What makes the value of the text that was typed, where the type alone does not."""
    writes: Writes | None = None
    """Of a path: what is written there; None: it is read."""
    exists: bool = True
    """Of a path that is read: whether it must be there before work begins; its reader may know better."""
    recorded: str | None = None
    """Of a path that is read: its name in the run record, with `{}` for the number of one of several; None: that
    of the field, "": it is not recorded."""
    recorded_file: str = ""
    """Of a folder that is read: the file in it whose digest is recorded."""


class _Table(NamedTuple):
    kinds: tuple[type, ...]
    """Dataclasses of its keys; those that `option` made are options of the command, too."""
    name: str | None


def argument(metavar: str, help: str, *, default: Any = MISSING, **properties: Any) -> Any:
    """A field that is given by its place on the command line; without a default it must be given.

    properties: fields of `Option`.
    """
    said = Option(help=help, metavar=metavar, is_argument=True, **properties)
    return field(default=default, metadata={DECLARED: said})


def option(help: str, *flags: str, default: Any = None, **properties: Any) -> Any:
    """A field that is given by name; `default=MISSING` for one that must be given.

    properties: fields of `Option`.
    """
    return field(default=default, metadata={DECLARED: Option(help=help, flags=flags, **properties)})


def output_option(help: str, writes: Writes = Writes.OTHER) -> Any:
    """--output: what is written."""
    return option(help, "--output", "-o", default=MISSING, writes=writes)


CONFIG: Any = option(
    "TOML file with settings, or a single setting as TABLE.KEY=VALUE; can be repeated; options override both.",
    "--config",
    "-c",
    default=(),
    metavar="FILE|KEY=VALUE",
    recorded="config {}",
)
"""TOML files with the tables and keys that other fields name, or single ones of them."""
SEED: Any = option("Seed of every random choice.", default=0, min=0, group=RUNNING)
THREADS: Any = option(
    "CPU threads [default: the cores granted to this process].", "--threads", "-t", min=1, group=RUNNING
)
RESUME: Any = option("Continue an interrupted run.", default=False, group=RUNNING)
FORCE: Any = option("Replace an existing result.", default=False, group=RUNNING)
SHARD: Any = option(
    "Run only the K-th of N parts of the inputs, such as 3/8; `bioattn merge` joins their files (FASTA: `cat`).",
    metavar="K/N",
    group=RUNNING,
)


def table(*kinds: type, name: str | None = None) -> Any:
    """A field that holds what was given of the settings in the dataclasses `kinds`; see above.

    name: of the table; None: that of the field.
    """
    return field(default_factory=dict, metadata={DECLARED: _Table(kinds, name)})


def options_of(kind: type) -> Any:
    """A field that holds the dataclass `kind`, whose fields made by `option` are options of the command."""
    return field(default_factory=kind, metadata={DECLARED: _Table((kind,), None)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all settings can do."""

    more_help: ClassVar[str] = ""

    def input_paths(self) -> dict[str, Path]:
        """Files and folders that are read, by the name of their field."""
        read = [
            one.name for one in parameters_of(type(self)) if one.table is None and one.said.writes is None
        ]
        values = {name: getattr(self, name) for name in read}
        return {name: value for name, value in values.items() if isinstance(value, Path)}

    def source(self, name: str) -> str:
        """Where the settings of a table come from, for messages."""
        config: tuple[Path, ...] = getattr(self, "config", ())
        return f"{', '.join(_config_source(given) for given in config)} [{name}]" if config else OPTIONS


S = TypeVar("S", bound=Settings)


class Parameter(NamedTuple):
    """An argument or option of a command."""

    name: str
    kind: Any
    said: Option
    default: Any
    """`dataclasses.MISSING` where it must be given."""
    table: str | None = None
    """The parameter that holds it, of an option that `table` brings along."""

    @property
    def flag(self) -> str:
        """As it is typed."""
        return next(iter(self.said.flags), f"--{self.name.replace('_', '-')}")


def parameters(name: str, kind: Any, declared: "Field[Any]") -> Iterator[Parameter]:
    """The parameters that a field stands for: itself, the options of its table, or none."""
    said = declared.metadata.get(DECLARED)
    if isinstance(said, Option) and said.help:
        yield Parameter(name, kind, said, declared.default)
    elif isinstance(said, _Table):
        options: dict[str, Parameter] = {}
        for inside in said.kinds:
            hints = typing.get_type_hints(inside)
            for key in (key for key in fields(inside) if DECLARED in key.metadata):
                one = Parameter(key.name, hints[key.name], key.metadata[DECLARED], key.default, name)
                options.setdefault(
                    key.name, _unset(one) if kind is not inside or "[default" in one.said.help else one
                )
        yield from options.values()


def _unset(one: Parameter) -> Parameter:
    """The same option without its default, which --help tells."""
    said = one.said
    if one.default is False:
        said = replace(said, flags=(one.flag,))
    elif one.default not in (None, ()) and "[default" not in said.help:
        said = replace(said, help=f"{said.help.rstrip('.')} [default: {one.default}].")
    is_tuple = typing.get_origin(one.kind) is tuple
    return one._replace(
        kind=one.kind if is_tuple else one.kind | None, said=said, default=() if is_tuple else None
    )


def declared_by(kind: type[Settings]) -> dict[str, tuple[Any, "Field[Any]"]]:
    """Types and fields of settings by name: a command's own first, as its help shows them."""
    hints = typing.get_type_hints(kind)
    inherited = {one.name for base in kind.__bases__ for one in fields(base)}
    ordered = sorted(fields(kind), key=lambda one: one.name in inherited)
    return {one.name: (hints[one.name], one) for one in ordered}


def parameters_of(kind: type[Settings]) -> list[Parameter]:
    """The arguments and options of a command."""
    declared = declared_by(kind).items()
    return [one for name, (hint, field) in declared for one in parameters(name, hint, field)]


def filled(declared: Mapping[str, tuple[Any, "Field[Any]"]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of parameters, with those of a table's options in the table. declared: type and field by name."""
    made = dict(values)
    for name, (kind, table_field) in declared.items():
        options = [one.name for one in parameters(name, kind, table_field) if one.table is not None]
        given = {option: made.pop(option) for option in options if option in made}
        said = {option: value for option, value in given.items() if value not in (None, ())}
        if dataclasses.is_dataclass(kind):
            made[name] = kind(**said)  # type: ignore[operator]
        elif given:
            made[name] = {**values.get(name, {}), **said}
    return made


def with_config_file(settings: S) -> S:
    """The same settings with the tables and keys that their field `config` names, if any.

    Raises: FormatError naming a table or key that is unknown or of the wrong type; BioattnError when a file
    cannot be read.
    """
    hints = typing.get_type_hints(type(settings))
    known: dict[str, tuple[str, type, str]] = {}
    inside: dict[str, str] = {}
    for one in fields(settings):
        said = one.metadata.get(DECLARED)
        if isinstance(said, _Table):
            table = said.name or one.name
            known[table] = (one.name, dict, "a table")
            inside |= {key.name: f"{table}.{key.name}" for kind in said.kinds for key in fields(kind)}
        elif said is not None and said.wanted is not None:
            is_list = typing.get_origin(hints[one.name]) is tuple
            known[one.name] = (one.name, list if is_list else str, said.wanted)
    values: dict[str, Any] = {}
    for path in getattr(settings, "config", ()):
        for name, value in _config(path).items():
            source = _config_source(path)
            if name not in known:
                names = [f"[{key}]" if kind is dict else key for key, (_, kind, _) in known.items()]
                hint = f"did you mean {inside[name]}?" if name in inside else f"known are {', '.join(names)}"
                raise settings_error(source, f"unknown table or key {name!r}; {hint}")
            own, kind, wanted = known[name]
            if not isinstance(value, kind):
                raise settings_error(source, f"{name} is {value!r}; {wanted} is needed")
            values[own] = {**values.get(own, {}), **value} if isinstance(value, dict) else value
    for name, value in values.items():
        given = getattr(settings, name)
        if isinstance(value, dict):
            values[name] = {**value, **given}
        elif given not in (None, ()):
            values[name] = given
        elif isinstance(value, list):
            values[name] = tuple(value)
    return replace(settings, **values)


def is_one_setting(given: Path) -> bool:
    """Whether what was given to --config is KEY=VALUE, not a file."""
    return "=" in str(given) and not given.exists()


def _config_source(given: Path) -> str:
    return f"--config {given}" if is_one_setting(given) else str(given)


def _config(given: Path) -> dict[str, Any]:
    """The content of a TOML file, or of KEY=VALUE; a value that is no TOML is a string."""
    if not is_one_setting(given):
        return read_toml(given)
    key, _, text = str(given).partition("=")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    for name in reversed(key.strip().split(".")):
        value = {name: value}
    return typing.cast(dict[str, Any], value)


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


def require_limits(options: Mapping[str, Option], values: Mapping[str, Any]) -> None:
    """Check numbers as the command line does; None is left alone.

    Raises: SettingsError for a number beyond the limits of the option of its name.
    """
    for name, value in values.items():
        said = options.get(name)
        if said is None or value is None:
            continue
        for limit, beyond, what in ((said.min, operator.lt, "least"), (said.max, operator.gt, "most")):
            if limit is not None and (not isinstance(value, numbers.Real) or beyond(value, limit)):
                raise SettingsError(f"{name} is {value!r}; it must be at {what} {limit:g}")


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
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (
        not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)
    ):
        shown = f"a {type(value).__name__}" if hasattr(value, "shape") else repr(value)
        raise SettingsError(f"{where} is {shown}; a value of type {hint.__name__} is needed")
    return value
