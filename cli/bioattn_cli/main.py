"""The `bioattn` program: verbs, and the one place where errors become messages and exit codes.

Exit codes: 0 done; 1 bad input or failure; 2 wrong usage; 130 Ctrl-C; 143 SIGTERM; 141 stdout closed.
"""

import errno
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import NoReturn

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted, LostProcess, SettingsError
from bioattn.system.device import launch
from bioattn.system.signals import EXIT_CODES
from bioattn_cli.reporting import error_line, is_reporting_process

_stopped_with: list[int] = []
"""The exit code of the signal that came, once one has."""
_OUT_OF_MEMORY = "out of memory; use a smaller batch or input"
_NO_ROOM_FOR_LIBRARY = ("failed to map segment", "annot allocate memory")
"""What the loader of shared libraries says."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of printing; those of files are sentences of the library."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code. Set BIOATTN_DEBUG=1 to see tracebacks of user errors too."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Looking for garbage while torch is imported takes a tenth of that time.
        gc.set_threshold(50_000, 10, 10)
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
    def say_error(sentence: str, level: str = "error") -> None:
        if not is_reporting_process(arguments):
            sentence = f"process {launch().rank}: {sentence}"
        if not _stopped_with:  # else the signal is why, and `main` says so
            _print_error(sentence, arguments, level)

    if is_program:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
    try:
        with ExitStack() as silence:
            if not is_reporting_process(arguments):
                # Of processes that train together one speaks; the others say their errors alone.
                nowhere = silence.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
                silence.enter_context(redirect_stdout(nowhere))
                silence.enter_context(redirect_stderr(nowhere))
            try:
                if arguments == ["--version"]:  # without the imports of all commands
                    print(f"bioattn {__version__}")  # noqa: T201
                else:
                    from bioattn_cli.program import as_our_errors, program

                    group = program()
                    group._main_shell_completion({}, "bioattn")
                    with (
                        as_our_errors(),
                        group.make_context("bioattn", arguments[:], obj=arguments) as context,
                    ):
                        group.invoke(context)
            finally:
                sys.stdout.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BioattnError as error:
        if os.environ.get("BIOATTN_DEBUG"):
            raise
        # What all processes know the first one says.
        if not isinstance(error, Interrupted | LostProcess) or is_reporting_process(arguments):
            # Who stops a command by Ctrl-C asked for it: that work was saved is no error.
            say_error(str(error), "info" if isinstance(error, Interrupted) else "error")
        if is_program and launch().count > 1:
            # The launcher ends whoever is left when one process ends: not with another exit code than ours.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if isinstance(error, Interrupted):
            return error.exit_code
        return 2 if isinstance(error, SettingsError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()
        return 141
    except (MemoryError, ImportError, OSError, RuntimeError) as error:
        number, text = getattr(error, "errno", None), str(error)
        if isinstance(error, MemoryError) or number == errno.ENOMEM:
            sentence = _OUT_OF_MEMORY
        elif isinstance(error, ImportError) and any(words in text for words in _NO_ROOM_FOR_LIBRARY):
            sentence = "out of memory while libraries were loaded; allow this process more of it (ulimit -v)"
        elif number in (errno.EMFILE, errno.ENFILE):
            sentence = "too many open files; allow this process more of them (ulimit -n)"
        elif isinstance(error, OSError) and number in _FULL:
            _drop_output()
            sentence = (
                f"standard output cannot be written ({error.strerror}); what was printed is not complete"
            )
        # torch's GPU errors have a class, its CPU errors only a sentence.
        elif type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text:
            sentence = f"{_OUT_OF_MEMORY} ({text.splitlines()[0]})"
        else:
            raise
        say_error(sentence)
        return 1
    return 0


def _drop_output() -> None:
    """Let what is still buffered go nowhere when the interpreter closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(sentence: str, arguments: Sequence[str], level: str = "error") -> None:
    """The one place that reports errors."""
    print(error_line(sentence, arguments, level), file=sys.stderr)  # noqa: T201


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends the program as Ctrl-C does, so that temporary files go. Long work has a gentler way of its own:
    `bioattn.system.signals`."""
    _stopped_with.append(EXIT_CODES[signal.Signals(number)])
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(143)
