"""The `bioattn` program: verbs, and the one place where errors become messages and exit codes.

Exit codes: 0 done; 1 bad input or failure; 2 wrong usage; 130 Ctrl-C; 143 SIGTERM; 141 stdout closed.
"""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.system.signals import EXIT_CODES
from bioattn.system.torchrun import launch
from bioattn_cli.command import is_reporting_process
from bioattn_cli.commands.families import register_families
from bioattn_cli.reporting import error_line, open_standard_streams
from bioattn_cli.verbs import VERBS, Verb, add_commands, add_verbs

_stopped_with: list[int] = []
"""The exit code of the signal that came, once one has."""
_OUT_OF_MEMORY = b"bioattn: error: out of memory; use a smaller batch or input\n"
_NO_ROOM_FOR_LIBRARY = (
    "failed to map segment",
    "annot allocate memory",
    "error return without exception set",
)
"""What the loader of shared libraries says, and Python where an import has no memory even for its exception."""


class _ReaderGone(Exception):  # noqa: N818 - not a failure: whoever read our stdout has seen enough (`| head`)
    """A broken pipe under a name of its own: typer would end the program with exit code 1."""


class _OutputFailed(Exception):  # noqa: N818 - as above
    """What was printed did not get out: the disk behind `> file` is full, mostly."""


@contextmanager
def _own_output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ReaderGone from error
    except OSError as error:
        # Printing ends in click's `echo`; any other place that raises is a mistake of ours, to be seen in full.
        (*_, (last, _)) = traceback.walk_tb(error.__traceback__)
        if last.f_code.co_name != "echo":
            raise
        raise _OutputFailed(error.strerror or str(error)) from error


_UsageError: Any = typer.BadParameter.__base__
"""typer has it from click, or a copy of click inside it: which depends on the version."""


@contextmanager
def _own_usage_errors(arguments: Sequence[str]) -> Iterator[None]:
    """Raise SettingsError for a command line that typer refuses; a verb alone shows its help as ever."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        told = SettingsError(_sentence(error))
        # Processes that train together have one command line.
        told.is_reported_elsewhere = not is_reporting_process(arguments)
        raise told from error


def _sentence(error: Any) -> str:
    words = " ".join(error.format_message().split()).rstrip(".?").partition(", unable to parse")[0]
    for theirs, ours in (("Value error, ", ""), (". Did you", ", did you"), ("(Possible", "(possible")):
        words = words.replace(theirs, ours)
    refused = getattr(error.__cause__, "errors", None)  # pydantic, which names no value
    if refused is not None:
        words = words.replace("Input should", f"{refused()[0]['input']!r} should")
    hint = "" if error.ctx is None else f"; see `{error.ctx.command_path} --help`"
    return words[:1].lower() + words[1:] + hint


_OTHER_WORDS = {"predict": "run"}
"""What other programs call our verbs."""


class _Program(Verb):
    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of use."""
        return sorted(super().list_commands(ctx), key=list(VERBS).index)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As typer does it, and with the verb for a word that others use."""
        if args[0] in _OTHER_WORDS:
            raise _UsageError(f"No such command {args[0]!r}. Did you mean {_OTHER_WORDS[args[0]]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """As typer does it; --help and --version print from in here."""
        with _own_output_errors(), _own_usage_errors(options.get("obj") or ()):
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """As typer does it."""
        with _own_output_errors(), _own_usage_errors(ctx.obj or ()):
            return super().invoke(ctx)


app = typer.Typer(
    name="bioattn",
    help="Train and run attention models on biological sequences, and store every attention map.",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
add_verbs(app)
with suppress(BioattnError):  # comes again in `_main`, where errors become messages
    register_families()
add_commands(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bioattn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train and run attention models on biological sequences, and store every attention map."""


@cache
def _program() -> Callable[..., Any]:
    """All commands, built once in a process that calls `main` again and again."""
    return typer.main.get_command(app)


@contextmanager
def _only_the_first_reports(arguments: Sequence[str]) -> Iterator[None]:
    """Of several processes that train together one speaks; what the others would say goes nowhere.

    An error that is theirs alone is said by `main`.
    """
    if is_reporting_process(arguments):
        yield
        return
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code. Set BIOATTN_DEBUG=1 to see tracebacks of user errors too."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _main(arguments, is_program=argv is None)
    except Exception:
        if not _stopped_with:
            raise
        code = 1
    if not _stopped_with or code == 0:
        return code
    if is_reporting_process(arguments):
        name = next(number.name for number, own in EXIT_CODES.items() if own == _stopped_with[0])
        _print_error(f"stopped by {name}; no output is half-written", arguments)
    # A signal inside a compiled library comes out of it as any error.
    return _stopped_with[0] if code == 1 else code


def _main(arguments: list[str], *, is_program: bool) -> int:
    say_error = partial(_say_error, arguments=arguments)
    if is_program:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
        open_standard_streams()
    try:
        with _only_the_first_reports(arguments), _own_output_errors():
            register_families()
            add_commands(app)
            try:
                _program()(args=arguments, prog_name="bioattn", obj=arguments)
            finally:
                _flush_output()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BioattnError as error:
        if os.environ.get("BIOATTN_DEBUG"):
            raise
        if not error.is_reported_elsewhere:
            say_error(str(error))
        if is_program and launch().count > 1:
            # The launcher ends whoever is left when one process ends: not with another exit code than ours.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if isinstance(error, Interrupted):
            return error.exit_code
        return 2 if isinstance(error, SettingsError) else 1
    except KeyboardInterrupt:
        return 130
    except _ReaderGone:
        _drop_output()
        return 141
    except _OutputFailed as error:
        _drop_output()
        say_error(f"standard output cannot be written ({error}); what was printed is not complete")
        return 1
    except MemoryError:
        try:
            say_error("out of memory; use a smaller batch or input")
        except MemoryError:  # not even for saying it
            os.write(2, _OUT_OF_MEMORY)
        return 1
    except (ImportError, SystemError) as error:
        if not any(words in str(error) for words in _NO_ROOM_FOR_LIBRARY):
            raise
        say_error("out of memory while libraries were loaded; allow this process more of it (ulimit -v)")
        return 1
    except OSError as error:
        if error.errno == errno.ENOMEM:
            say_error("out of memory; use a smaller batch or input")
        elif error.errno in (errno.EMFILE, errno.ENFILE):
            say_error("too many open files; allow this process more of them (ulimit -n)")
        else:
            raise
        return 1
    except RuntimeError as error:
        if not _is_torch_out_of_memory(error):
            raise
        say_error(f"out of memory; use a smaller batch or input ({str(error).splitlines()[0]})")
        return 1
    return 0


def _flush_output() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _OutputFailed(error.strerror or str(error)) from error


def _drop_output() -> None:
    """Let what is still buffered go nowhere when the interpreter closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_error(sentence: str, arguments: Sequence[str]) -> None:
    if _stopped_with:
        return  # whatever it says, the signal is why, and `main` says so
    _print_error(sentence, arguments)


def _print_error(sentence: str, arguments: Sequence[str]) -> None:
    print(error_line(sentence, arguments), file=sys.stderr)  # noqa: T201 - the one place that reports errors


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends the program as Ctrl-C does, so that temporary files go. Long work has a gentler way of its own:
    `bioattn.system.signals`."""
    _stopped_with.append(EXIT_CODES[signal.Signals(number)])
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(143)


def _is_torch_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not allocate: its GPU errors have a class, its CPU errors only a sentence."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
