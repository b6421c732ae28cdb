"""Inputs that come through a pipe, copied to files: readers look at a file twice and go back in it."""

import io
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from bioattn.errors import SettingsError
from bioattn.io.files import PIPED, unreadable
from bioattn.io.settings import Parameter
from bioattn_cli.reporting import TYPED


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
