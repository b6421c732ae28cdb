"""The commands of bioattn, called by benchmarks in their process, and the folders of data that they name."""

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY / "data"
SHARED = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
"""Public data files and golden vectors that are not in the repository."""


class CommandError(Exception):
    """A command of bioattn ended with another code than 0."""


def run(*words: object, show: bool = False) -> None:
    """Run a command in this process; its tables go to standard error. The first word may be several.

    show: print the command line. Raises: SystemExit when the command fails.
    """
    from bioattn_cli.main import main

    argv = [*shlex.split(str(words[0])), *map(str, words[1:])]
    if show:
        print("    bioattn " + shlex.join(argv), flush=True)
    with contextlib.redirect_stdout(sys.stderr):
        code = main(argv)
    if code:
        raise SystemExit(f"bioattn {shlex.join(argv)} ended with {code}")


def bioattn(command: str, *words: object) -> str:
    """Run a command, given as on a command line, with further words; return what it prints to standard output.

    Raises: CommandError with the command and what it said when it fails.
    """
    from bioattn_cli.main import main

    argv = [*shlex.split(command), *map(str, words)]
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = main(argv)
    if code != 0:
        raise CommandError(f"bioattn {shlex.join(argv)} failed:\n{said.getvalue()}")
    return printed.getvalue()


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Work in a folder where `data` and `shared` name the data, so that commands read as in the documentation."""
    for name, target in (("data", DATA), ("shared", SHARED)):
        if not (folder / name).exists():
            (folder / name).symlink_to(target)
    with contextlib.chdir(folder):
        yield
