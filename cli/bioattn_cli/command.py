"""The decorator `command`: what every command does beside its own work.

It adds --quiet, --verbose and --log-format, checks the paths that were given, keeps other runs from writing the
same output, watches the inputs, and writes the run record, with its time, of what the command returns.
"""

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from bioattn.errors import BioattnError
from bioattn.io.input_watch import watched_inputs
from bioattn.io.output_lock import reserve_output
from bioattn.system.torchrun import launch
from bioattn_cli.reporting import LogFormat, Reporter, take_bar_away

COMMANDS: dict[str, Callable[..., None]] = {}
"""Functions for typer by their words, such as `export tracks`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """In the annotation of a path: how the run record names this input; without one, as the parameter is named."""

    name: str
    """`{}` stands for the number of a path that can be given several times."""
    first_number: int = 1
    file: str = ""
    """The file of a folder that the digest is of; empty for the path itself."""


class Output(Enum):
    """In the annotation of a path: it is written, and what is checked before work begins."""

    FILE = auto()
    """A file, which is replaced."""
    STREAM = auto()
    """A file, or standard output for `-`."""
    FOLDER = auto()
    """A folder; that it may be replaced is for its writer to check."""
    OTHER = auto()
    """All is for its writer to check."""


class Record:
    """What a command has done: sentences to say of it, and what the run record holds beside command and inputs."""

    def __init__(
        self,
        *sentences: str,
        outputs: Sequence[Path] | None = None,
        inputs: Mapping[str, Path] | None = None,
        failure: str | None = None,
        **figures: Any,
    ) -> None:
        """outputs: those to write a record beside, empty for none; None: the parameter `output`, unless it is
        standard output. inputs: more than the parameters say, by name. failure: the sentence that ends the
        command with exit code 1, for what it could not do although it wrote its outputs."""
        self.sentences = sentences
        self.outputs = outputs
        self.inputs = dict(inputs or {})
        self.failure = failure
        self.figures = figures


class _PathParameter(NamedTuple):
    """A parameter of a command that names a file or folder, or several."""

    name: str
    option: str
    """As it is typed."""
    role: Input | Output
    must_exist: bool

    def given(self, arguments: Mapping[str, Any]) -> list[Path]:
        """The paths among the arguments of a call."""
        value = arguments[self.name]
        return [path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path)]

    def recorded(self, arguments: Mapping[str, Any]) -> dict[str, Path]:
        """Inputs by their name in the run record."""
        if not isinstance(self.role, Input):
            return {}
        return {
            self.role.name.format(number): path / self.role.file
            for number, path in enumerate(self.given(arguments), start=self.role.first_number)
            if self.role.name
        }


def command(words: str) -> Callable[[Callable[..., Record | None]], Callable[..., Record | None]]:
    """Register a function as the command `words`: a verb and, of most verbs, a noun.

    Its first parameter must be `reporter`. Paths among its parameters are inputs, recorded under the parameter's
    name, unless their annotation has an `Input` or `Output`. It returns what `Record` it wants to be written.
    """

    def register(function: Callable[..., Record | None]) -> Callable[..., Record | None]:
        COMMANDS[words] = with_report(function)
        return function

    return register


def with_report(function: Callable[..., Record | None]) -> Callable[..., None]:
    """The function with the shared options, for typer; see `command`."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())[1:]
    paths = [path for parameter in own for path in _path_parameter(parameter)]
    for parameter in own:
        _name_type(parameter.annotation)
    shared = [
        inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for parameter, default, annotation in (
            ("quiet", False, _QuietOption),
            ("verbose", False, _VerboseOption),
            ("log_format", LogFormat.TEXT, _LogFormatOption),
            ("context", inspect.Parameter.empty, typer.Context),
        )
    ]

    @functools.wraps(function)
    def run(
        *, quiet: bool, verbose: bool, log_format: LogFormat, context: typer.Context, **arguments: Any
    ) -> None:
        began = time.monotonic()
        words = context.obj or ()
        reporter = Reporter(quiet=quiet, verbose=verbose, log_format=log_format, arguments=words)
        output = arguments.get("output") if is_reporting_process(words) else None
        with (
            reserve_output(output) if isinstance(output, Path) else nullcontext(),
            watched_inputs(path for parameter in paths for path in parameter.given(arguments)),
        ):
            if launch().count == 1:  # of several processes one says it, once they have met
                _check(paths, arguments)
            try:
                record = function(reporter, **arguments)
                if record is not None:
                    _write(record, reporter, paths, arguments, began)
            finally:
                take_bar_away()

    run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
    return run


def is_reporting_process(arguments: Sequence[str]) -> bool:
    """Whether this process writes and reports: always, but of several that train together only the first."""
    return arguments[:1] != ["train"] or launch().is_first


_QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
_VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="More detail on stderr.")]
_LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Messages as text or JSON lines.")]


def _path_parameter(parameter: inspect.Parameter) -> Iterator[_PathParameter]:
    """Nothing, or what a parameter that holds paths is for."""
    kind, *extras = get_args(parameter.annotation) or (parameter.annotation,)
    kinds = {kind, *get_args(kind)}
    if not kinds & {Path, list[Path]}:
        return
    role = next((extra for extra in extras if isinstance(extra, Input | Output)), Input(name=parameter.name))
    is_argument = any(isinstance(extra, ArgumentInfo) for extra in extras)
    yield _PathParameter(
        name=parameter.name,
        option="--" + parameter.name.replace("_", "-"),
        role=role,
        must_exist=is_argument and parameter.default is parameter.empty,
    )


def _check(parameters: Sequence[_PathParameter], arguments: Mapping[str, Any]) -> None:
    """Say that an input is absent, or an output cannot be, before torch is loaded, which takes seconds.

    What else may be wrong with an input is for its reader to say. Raises: BioattnError.
    """
    from bioattn.io.files import check_apart, check_output, check_parent, unreadable

    inputs = []
    for parameter in parameters:
        if not isinstance(parameter.role, Input):
            continue
        inputs += parameter.given(arguments)
        for path in parameter.given(arguments) if parameter.must_exist else []:
            try:
                if str(path) != "-":
                    path.stat()
            except FileNotFoundError as error:
                raise unreadable(path, error) from None
            except OSError:
                continue
    for parameter in parameters:
        for path in parameter.given(arguments):
            if parameter.role is Output.FILE or (parameter.role is Output.STREAM and str(path) != "-"):
                check_output(path, inputs, parameter.option)
            elif parameter.role is Output.FOLDER:
                check_parent(path)
                check_apart(path, inputs, parameter.option)


def _write(
    record: Record,
    reporter: Reporter,
    parameters: Sequence[_PathParameter],
    arguments: Mapping[str, Any],
    began: float,
) -> None:
    """Write the run record beside each output, then say the sentences. Raises: BioattnError for a failure."""
    from bioattn.io.run_record import write_run_record

    inputs = {name: path for each in parameters for name, path in each.recorded(arguments).items()}
    output = arguments.get("output")
    outputs = record.outputs
    if outputs is None:
        outputs = [output] if isinstance(output, Path) and str(output) != "-" else []
    figures = record.figures | ({} if arguments.get("shard") is None else {"shard": arguments["shard"]})
    seconds = time.monotonic() - began
    for path in outputs:
        write_run_record(path, reporter.command, inputs | record.inputs, seconds, **figures)
    for sentence in record.sentences:
        reporter.say(sentence)
    if record.failure is not None:
        raise BioattnError(record.failure)


def _name_type(annotation: Any) -> None:
    """Have the help say `<int>` of a number with bounds, as of one without; the bounds stand behind it.

    And of an option that can be repeated what one of its values is.
    """
    kind, *extras = get_args(annotation) or (annotation,)
    kinds = (kind, *get_args(kind))
    values = next((get_args(one)[0] for one in kinds if get_origin(one) is list), None)
    for option in extras:
        if not isinstance(option, OptionInfo) or option.metavar is not None:
            continue
        if option.min is not None or option.max is not None:
            option.metavar = "<float>" if float in kinds else "<int>"
        elif values is not None:
            option.metavar = f"<{'|'.join(values) if issubclass(values, Enum) else values.__name__}>"
