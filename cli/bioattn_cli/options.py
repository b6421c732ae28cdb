"""Options that mean the same in every command, and the decorator that gives each command its reporter."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

from bioattn.io.input_watch import watched_inputs
from bioattn.io.output_lock import reserve_output
from bioattn.system.torchrun import launch
from bioattn_cli.reporting import LogFormat, Reporter, take_bar_away
from bioattn_cli.verbs import help_text


class Device(StrEnum):
    """Where a model runs."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


class Precision(StrEnum):
    """Arithmetic of a forward pass."""

    FP32 = "fp32"
    BF16 = "bf16"


OutputOption = Annotated[Path, typer.Option("--output", "-o", help="Where the result is written.")]
DeviceOption = Annotated[Device, typer.Option(help="Where the model runs; auto takes a GPU if there is one.")]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", "-t", min=1, help="CPU threads [default: the cores granted to this process]."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing result.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")]
ShardOption = Annotated[
    str | None,
    typer.Option(
        metavar="K/N", help="Only the K-th of N parts of the inputs, such as 3/8; `bioattn merge` joins them."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with any setting; options win over it.")
]

_QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors on stderr.")]
_VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="More detail on stderr.")]
_LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="Messages as text or JSON lines.")]


def is_spokesman(arguments: Sequence[str]) -> bool:
    """Whether this process writes and reports: always, but of several that train together only the first."""
    return arguments[:1] != ["train"] or launch().is_first


def _paths(values: Iterable[Any]) -> Iterator[Path]:
    """Those among the arguments of a command; outputs do no harm."""
    for value in values:
        if isinstance(value, Path):
            yield value
        elif isinstance(value, list | tuple):
            yield from _paths(value)


def _must_exist(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is an input: an argument that must be given and names files or folders."""
    kind, *extras = get_args(parameter.annotation) or (parameter.annotation,)
    is_argument = any(isinstance(extra, ArgumentInfo) for extra in extras)
    return is_argument and parameter.default is parameter.empty and Path in (kind, *get_args(kind))


def _require(inputs: Iterable[Path]) -> None:
    """Say that an input is absent before torch is loaded, which takes seconds.

    What else may be wrong with it is for its reader to say. Raises: BioattnError.
    """
    from bioattn.io.files import unreadable

    for path in inputs:
        if str(path) == "-":
            continue
        try:
            path.stat()
        except FileNotFoundError as error:
            raise unreadable(path, error) from None
        except OSError:
            continue


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
            option.metavar = f"<{'|'.join(values) if issubclass(values, StrEnum) else values.__name__}>"


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command and add --quiet, --verbose and --log-format to its options.

    The function's first parameter must be `reporter`; it is made from those three options. Other runs are kept
    from writing what its parameter `output` names, if it has one, until it returns.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[1:]
        inputs = [parameter.name for parameter in own if _must_exist(parameter)]
        for parameter in own:
            _name_type(parameter.annotation)
        shared = [
            inspect.Parameter(
                parameter, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
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
            reporter = Reporter(
                quiet=quiet, verbose=verbose, log_format=log_format, arguments=context.obj or ()
            )
            output = arguments.get("output") if is_spokesman(context.obj or ()) else None
            with (
                reserve_output(output) if isinstance(output, Path) else nullcontext(),
                watched_inputs(_paths(arguments.values())),
            ):
                if launch().count == 1:  # of several processes one says it, once they have met
                    _require(_paths(arguments[name] for name in inputs))
                try:
                    function(reporter, **arguments)
                finally:
                    take_bar_away()

        run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
        app.command(name, help=help_text(function.__doc__))(run)
        return function

    return register
