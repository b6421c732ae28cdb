"""The decorator `command`: what every command does beside its own work.

It adds --quiet, --verbose and --log-format, checks the paths that were given, and writes the run record, with its
time, of what the command returns.
"""

import inspect
import io
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import MISSING
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import typer

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import PIPED, check_apart, check_output, check_parent, run_record_path, unreadable
from bioattn.io.folders import already_there
from bioattn.io.hub import local_model, shipped_model
from bioattn.io.records import write_run_record
from bioattn.io.settings import Parameter, Writes, filled, is_one_setting, parameters
from bioattn.models.family import is_parameter_file
from bioattn.models.running import RunReport
from bioattn.system.device import launch
from bioattn_cli.reporting import LOGGER, TYPED, LogFormat, Reporter

Result: TypeAlias = RunReport | None
GROUPS = ("Inputs", "Output", "Model", "Training", "Options", "Running")
"""Headings of --help, in their order; the last is that of the options that every command has."""
COMMANDS: dict[str, Callable[..., Result]] = {}
"""What `command` was given, by words such as `export tracks`; `with_report` makes functions for typer of it."""


def _for_typer(one: Parameter) -> inspect.Parameter:
    said, default, metavar = one.said, one.default, one.said.metavar
    kinds = (one.kind, *get_args(one.kind))
    group = {"model": "Model", "training": "Training"}.get(one.table or "", "Options")
    if said.is_argument or Path in kinds:
        group = "Inputs" if said.writes is None else "Output"
    group = said.group or group
    is_tuple = get_origin(one.kind) is tuple
    kind = list[kinds[1]] if is_tuple else one.kind  # type: ignore[valid-type]
    if said.parse is not None:
        kind = str | None
    if is_tuple and default == ():
        kind, default = kind | None, None
    if said.is_argument:
        shown: Any = typer.Argument(metavar=metavar, help=said.help, rich_help_panel=group)
    else:
        if metavar is None and (said.min is not None or said.max is not None):
            metavar = "<float>" if float in kinds else "<int>"  # as typer has it without bounds
        elif metavar is None and is_tuple:
            metavar = f"<{'|'.join(kinds[1]) if issubclass(kinds[1], Enum) else kinds[1].__name__}>"
        # Of a flag that is off by default nothing like --no-force is offered.
        flags = said.flags or ((one.flag,) if default is False else ())
        shown = typer.Option(
            *flags,
            help=said.help,
            metavar=metavar,
            min=said.min,
            max=said.max,
            parser=said.parse,
            rich_help_panel=group,
        )
    return inspect.Parameter(
        one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, shown],
    )


def _paths(one: Parameter, arguments: Mapping[str, Any]) -> list[Path]:
    value = arguments[one.name]
    return [path for path in (value if isinstance(value, tuple) else [value]) if isinstance(path, Path)]


def command(words: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register a function as the command `words`: a verb and, of most verbs, a noun.

    Its first parameter must be `reporter`, the defaults of the others fields made by `argument` or `option`. It
    returns what it wants to have recorded.
    """
    return partial(COMMANDS.setdefault, words)


_last = partial(typer.Option, rich_help_panel=GROUPS[-1])


def _shared(
    *,
    quiet: Annotated[bool, _last("--quiet", "-q", help="Only warnings and errors on stderr.")] = False,
    verbose: Annotated[bool, _last("--verbose", "-v", help="More detail on stderr.")] = False,
    log_format: Annotated[LogFormat, _last(help="Messages as text or JSON lines.")] = LogFormat.TEXT,
    typer_context: typer.Context,
) -> None:
    """The options that every command has."""


def with_report(function: Callable[..., Result]) -> Callable[..., None]:
    """The function with the shared options, for typer; see `command`."""
    signature = inspect.signature(function)
    declared = {name: (one.annotation, one.default) for name, one in list(signature.parameters.items())[1:]}
    own = [one for name, (kind, field) in declared.items() for one in parameters(name, kind, field)]

    @wraps(function)
    def run(
        *, quiet: bool, verbose: bool, log_format: LogFormat, typer_context: typer.Context, **arguments: Any
    ) -> None:
        began = time.monotonic()
        for one in own:
            if get_origin(one.kind) is tuple:
                arguments[one.name] = tuple(arguments[one.name] or ())
        words = typer_context.obj or ()
        reporter = Reporter(quiet=quiet, verbose=verbose, log_format=log_format, arguments=words)
        for one in (one for one in own if one.said.writes is None):
            given = arguments[one.name]
            if isinstance(given, Path):
                arguments[one.name] = (local_model if one.said.recorded_file else shipped_model)(given)
            elif Path in get_args(one.kind) and isinstance(given, tuple):
                arguments[one.name] = tuple(map(local_model if one.name == "model" else shipped_model, given))
        is_alone = launch().count == 1
        if is_alone:  # of several processes one says it, once they have met
            _check(own, arguments)
        try:
            with pipes_as_files(own if is_alone else (), arguments) as readable:
                done = function(reporter, **filled(declared, readable)) or RunReport(outputs=())
                inputs: dict[str, Path] = {}
                for one in own:
                    name = one.name if one.said.recorded is None else one.said.recorded
                    for number, path in enumerate(_paths(one, readable), start=1):
                        if one.said.writes is None and name and not is_one_setting(path):
                            recorded = path if path.is_file() else path / one.said.recorded_file
                            inputs[name.format(number)] = recorded
                output, outputs = readable.get("output"), done.outputs
                if outputs is None:
                    outputs = [output] if isinstance(output, Path) and str(output) != "-" else []
                shard = readable.get("shard")
                figures = {**done.figures, **({} if shard is None else {"shard": shard})}
                was_finished = figures.get("finished_before", False)
                if outputs and not (was_finished and run_record_path(outputs[0]).exists()):
                    seconds, inputs = time.monotonic() - began, inputs | dict(done.inputs)
                    write_run_record(outputs, reporter.command, inputs, seconds, **figures)
        finally:
            reporter.progress.end()
        for sentence in done.sentences:
            reporter.say(sentence)
        if done.failure is not None:
            raise BioattnError(done.failure)

    shown = [*map(_for_typer, own), *inspect.signature(_shared).parameters.values()]
    run.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def _check(own: Sequence[Parameter], arguments: Mapping[str, Any]) -> None:
    """Say that an input is absent, or an output cannot be or is there, before torch is loaded, which takes time.

    What else may be wrong with an input is for its reader to say. Raises: BioattnError.
    """

    inputs = [one for one in own if one.said.writes is None]
    given = [path for one in inputs for path in _paths(one, arguments)]
    for path in (path for one in inputs if one.said.exists for path in _paths(one, arguments)):
        try:
            if str(path) != "-" and not is_one_setting(path):
                path.stat()
        except FileNotFoundError as error:
            raise unreadable(path, error) from None
        except OSError:
            continue
    # A model folder and a file are easily swapped.
    places = [one for one in inputs if one.said.is_argument]
    models = [one for one in places if one.said.recorded_file]
    for one in models:
        path = arguments[one.name]
        if path.is_file() and not is_parameter_file(path):
            raise BioattnError(f"{one.said.metavar} {path}: is a file, a model folder is needed")
    for one in (one for one in places if models and one not in models):
        for path in _paths(one, arguments):
            if (path / models[0].said.recorded_file).is_file():
                raise BioattnError(f"{one.said.metavar} {path}: is a model folder, a file is needed")
    may_replace = arguments.get("force", True) or arguments.get("resume", False)
    outputs: dict[Path, str] = {}
    for one in own:
        option, writes = one.flag, one.said.writes
        for path in _paths(one, arguments):
            if writes is not None and str(path) != "-":
                if path.resolve() in outputs:
                    raise SettingsError(f"{outputs[path.resolve()]} and {option} name the same file, {path}")
                outputs[path.resolve()] = option
            if writes is Writes.FILE or (writes is Writes.STREAM and str(path) != "-"):
                check_output(path, given, option)
                if path.suffix.lower() == ".csv":
                    LOGGER.warning(f"{option} {path}: columns are separated by tabs; name it .tsv")
            elif writes is Writes.FOLDER:
                check_parent(path)
                check_apart(path, given, option)
                if option == "--output" and not may_replace and path.is_dir() and any(path.iterdir()):
                    raise already_there(path)


# --- inputs that come through a pipe, copied to files: readers look at a file twice and go back in it ---


@contextmanager
def pipes_as_files(own: Sequence[Parameter], arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a command with files for `-` (standard input) and pipes among its inputs.

    The files are gone at the end. Messages go on naming what was typed.

    Raises: SettingsError when standard input is named twice.
    """
    with ExitStack() as stack:
        made = dict(arguments)
        copies: dict[str, Path] = {}
        for one in (one for one in own if one.said.writes is None):
            value, copied = made[one.name], partial(_copied, one, stack, copies)
            made[one.name] = tuple(map(copied, value)) if isinstance(value, tuple) else copied(value)
        TYPED.update({str(copy): name for name, copy in copies.items()})
        yield made


def _copied(one: Parameter, stack: ExitStack, copies: dict[str, Path], value: Any) -> Any:
    """An argument, or NAME=FILE of one, with the file that stands for it where it is a pipe."""
    if not isinstance(value, str | Path):
        return value
    name, equals, text = str(value).rpartition("=") if one.said.is_argument else ("", "", str(value))
    takes_file = isinstance(value, Path) or one.said.is_argument or "FILE" in (one.said.metavar or "")
    is_stdin = text == "-" and takes_file
    try:
        mode = 0 if is_stdin else Path(text).stat().st_mode
    except (OSError, ValueError):
        return value
    if not (is_stdin or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
        return value
    shown = "standard input" if is_stdin else text
    if is_stdin and shown in copies:
        raise SettingsError("-: standard input is named twice, and can be read once")
    if shown not in copies:
        stem = "stdin" if is_stdin else Path(text).name
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PIPED)))
        copy = copies[shown] = folder / (f"fd{stem}" if stem.isdecimal() else stem)
        try:
            stdin = getattr(sys.stdin, "buffer", None) or io.BytesIO()  # a program can be started without one
            with copy.open("wb") as file, nullcontext(stdin) if is_stdin else Path(text).open("rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        except OSError as error:
            raise unreadable(Path(shown), error) from error
    return type(value)(f"{name}{equals}{copies[shown]}")
