"""The `bioattn` program: verbs, and the one place where errors become messages and exit codes.

Exit codes: 0 done; 1 bad input or failure; 2 wrong usage; 130 Ctrl-C; 143 SIGTERM; 141 stdout closed.
"""

import os
import sys
from typing import Annotated

import typer

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn_cli import export, inspect_file, prepare, run, simulate, train

app = typer.Typer(
    name="bioattn",
    help="Attention models on biological sequences, with every attention map kept.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(prepare.app, name="prepare")
app.add_typer(simulate.app, name="simulate")
app.add_typer(train.app, name="train")
app.add_typer(run.app, name="run")
app.add_typer(export.app, name="export")
inspect_file.register(app)


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
    """Attention models on biological sequences, with every attention map kept."""


def main(argv: list[str] | None = None) -> int:
    """Run the program and return its exit code. Set BIOATTN_DEBUG=1 to see tracebacks of user errors too."""
    try:
        app(args=argv, prog_name="bioattn")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BioattnError as error:
        if os.environ.get("BIOATTN_DEBUG"):
            raise
        print(f"bioattn: error: {error}", file=sys.stderr)  # noqa: T201 - the one place that reports errors
        if isinstance(error, Interrupted):
            return error.exit_code
        return 2 if isinstance(error, SettingsError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our stdout went away (`| head`); nothing to say, and nothing left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError:
        print("bioattn: error: out of memory; use a smaller batch or input", file=sys.stderr)  # noqa: T201
        return 1
    return 0
