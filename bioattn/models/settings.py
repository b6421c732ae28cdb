"""The settings of a family's command: a dataclass whose fields are its command line and the TOML of --config.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TrainToy(TrainingCommand):         (`Settings` with the options of every training)
        \"\"\"Train a toy model.\"\"\"           (what --help says of the command)

        dataset: Path = argument("DATASET", "What the model learns from.")
        channels: int | None = option("Width of the model [default: 8].", table="model", min=1)

Here `--channels 16` and `channels = 16` in the table [model] of --config say the same; the option wins. A caller
from Python fills the same dataclass: `TrainToy(dataset=…, output=…, model={"channels": 16})`.

A field's type decides what an option takes: a number, a string, a path, an enumeration (its values are the
choices), `bool` (a flag; with the default True also `--no-…`), or `tuple[X, ...]` (an option that can be
repeated). An option that goes into a table is None, False or empty until it is given. Nothing here imports torch.
"""

import typing
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from bioattn.errors import FormatError
from bioattn.io.config_file import OPTIONS, read_toml
from bioattn.system.device import Device

_KEY = "bioattn.settings"
RUNNING = "Running"
"""The heading of options that say how a command works, and not what it makes."""


class Writes(StrEnum):
    """What is written to a path, and so what is checked before work begins."""

    FILE = "file"
    """A file, which is replaced."""
    STREAM = "stream"
    """A file, or standard output for `-`."""
    FOLDER = "folder"
    """A folder; that it may be replaced is for its writer to check."""
    OTHER = "other"
    """All is for its writer to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How a field stands on the command line."""

    help: str
    flags: tuple[str, ...] = ()
    """As typed, such as `--output` and `-o`; empty: made from the field's name."""
    metavar: str | None = None
    group: str | None = None
    """The heading of --help that it stands under; None: as path, table or none of both have it."""
    is_argument: bool = False
    """Whether it is given by its place and not by a name."""
    min: float | None = None
    max: float | None = None
    table: str | None = None
    """The table of the TOML file in which the same setting can stand."""
    key: str | None = None
    """Its name there; None: that of the field."""
    wanted: str | None = None
    """For a setting that can also stand in the TOML file outside tables: what its value is, for messages."""
    writes: Writes | None = None
    """Of a path: what is written there; None: it is read."""
    exists: bool = True
    """Of a path that is read: whether it must be there before work begins; its reader may know better."""
    recorded: str | None = None
    """Of a path that is read: its name in the run record, with `{}` for the number of one of several; None: that
    of the field, "": it is not recorded."""
    recorded_file: str = ""
    """Of a folder that is read: the file in it whose digest is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A field that holds a table of the TOML file."""

    name: str | None
    """None: the field's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopLevelKey:
    """A field that only the TOML file sets, outside tables."""

    wanted: str


def argument(metavar: str, help: str, *, default: Any = MISSING, **properties: Any) -> Any:
    """A field that is given by its place on the command line; without a default it must be given.

    properties: fields of `Option`.
    """
    said = Option(help=help, metavar=metavar, is_argument=True, **properties)
    return field(default=default, metadata={_KEY: said})


def option(help: str, *flags: str, default: Any = None, **properties: Any) -> Any:
    """A field that is given by name; `default=MISSING` for one that must be given.

    properties: fields of `Option`.
    """
    return field(default=default, metadata={_KEY: Option(help=help, flags=flags, **properties)})


def output_option(help: str, writes: Writes = Writes.OTHER) -> Any:
    """--output: what is written."""
    return option(help, "--output", "-o", default=MISSING, writes=writes)


def config_option() -> Any:
    """--config: a TOML file with the tables and keys that other fields name."""
    return option("TOML file with any setting; options override it.", "--config", "-c")


def seed_option(*, default: int | None = None, **properties: Any) -> Any:
    """--seed: an integer from 0. default: None = 0, unless the TOML file has another."""
    help = "Seed of every random choice" + (" [default: 0]." if default is None else ".")
    return option(help, default=default, min=0, group=RUNNING, **properties)


def device_option() -> Any:
    """--device: one of `Device`."""
    return option(
        "Device of the model; auto takes a GPU if one is present.", default=Device.AUTO, group=RUNNING
    )


def threads_option() -> Any:
    """--threads: an integer from 1, or None."""
    return option(
        "CPU threads [default: the cores granted to this process].", "--threads", "-t", min=1, group=RUNNING
    )


def resume_option() -> Any:
    return option("Continue an interrupted run.", default=False, group=RUNNING)


def log_dir_option() -> Any:
    """--log-dir: where training is logged for TensorBoard."""
    help = "Also log the training here as TensorBoard events (pip install tensorboard)."
    return option(help, metavar="DIR", writes=Writes.OTHER)


def force_option(help: str = "Replace an existing result.") -> Any:
    return option(help, default=False, group=RUNNING)


def shard_option() -> Any:
    """--shard: such as 3/8."""
    help = (
        "Run only the K-th of N parts of the inputs, such as 3/8; `bioattn merge` joins them (FASTA: `cat`)."
    )
    return option(help, metavar="K/N", group=RUNNING)


def table(name: str | None = None) -> Any:
    """A field that holds a table of the TOML file without what options say. name: None = that of the field."""
    return field(default_factory=dict, metadata={_KEY: _Table(name=name)})


def toml_key(wanted: str, *, default: Any) -> Any:
    """A field that only the TOML file sets, by a key outside tables. wanted: what its value is, for messages."""
    return field(default=default, metadata={_KEY: _TopLevelKey(wanted=wanted)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all settings can do."""

    def merged(self, name: str) -> dict[str, Any]:
        """The table `name` of the TOML file with what options said over it."""
        return {**getattr(self, name), **self.given(name)}

    def given(self, name: str) -> dict[str, Any]:
        """What options said of the settings in the table `name`."""
        unsaid = {each.name: each.default for each in fields(self)}
        return {
            said.key or each: getattr(self, each)
            for each, said in options_of(type(self)).items()
            if said.table == name and getattr(self, each) not in (None, (), unsaid[each])
        }

    def input_paths(self) -> dict[str, Path]:
        """Files and folders that are read, by the name of their field."""
        written = {name for name, said in options_of(type(self)).items() if said.writes is not None}
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in written}
        return {name: value for name, value in values.items() if isinstance(value, Path)}

    def source(self, name: str) -> str:
        """Where the settings of a table come from, for messages."""
        config = getattr(self, "config", None)
        return f"{config} [{name}]" if config else OPTIONS


S = TypeVar("S", bound=Settings)


def option_of(one: "Field[Any]") -> Option:
    """How a field that `argument` or `option` made stands on the command line."""
    said: Option = one.metadata[_KEY]
    return said


def options_of(kind: type[Settings]) -> dict[str, Option]:
    """The fields of `kind` that stand on the command line, by name, in their order."""
    return {name: said for name, said in _metadata(kind).items() if isinstance(said, Option)}


def with_config_file(settings: S) -> S:
    """The same settings with the tables and keys of the TOML file that their field `config` names, if any.

    Raises: FormatError naming a table or key that is unknown or of the wrong type; BioattnError when the file
    cannot be read.
    """
    path: Path | None = getattr(settings, "config", None)
    if path is None:
        return settings
    known = {
        getattr(said, "name", None) or name: (name, said)
        for name, said in _metadata(type(settings)).items()
        if isinstance(said, (_Table, _TopLevelKey)) or said.wanted is not None
    }
    hints = typing.get_type_hints(type(settings))
    values: dict[str, Any] = {}
    for name, value in read_toml(path).items():
        if name not in known:
            names = [f"[{each}]" if isinstance(said, _Table) else each for each, (_, said) in known.items()]
            raise FormatError(f"{path}: unknown table or key {name!r}; known are {', '.join(names)}")
        own, said = known[name]
        is_list = typing.get_origin(hints[own]) is tuple
        kind, wanted = (
            (dict, "a table") if isinstance(said, _Table) else (list if is_list else str, said.wanted)
        )
        if not isinstance(value, kind):
            raise FormatError(f"{path}: {name} is {value!r}; {wanted} is needed")
        if not isinstance(said, Option) or getattr(settings, own) is None:
            values[own] = tuple(value) if is_list else value
    return replace(settings, **values)


def _metadata(kind: type[Settings]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    inherited = {each.name for base in kind.__bases__ for each in fields(base)}
    # A command's own settings first, as its help shows them.
    for each in sorted(fields(kind), key=lambda each: each.name in inherited):
        if _KEY not in each.metadata:
            raise TypeError(
                f"{kind.__name__}.{each.name}: give it argument(), option(), table() or toml_key()"
            )
        found[each.name] = each.metadata[_KEY]
    return found
