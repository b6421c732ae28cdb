"""`bioattn inspect`: what a file is."""

from typing import Annotated

import typer

from bioattn_cli.command import command
from bioattn_cli.options import FileArgument
from bioattn_cli.reporting import Reporter


@command("inspect")
def inspect(
    reporter: Reporter,
    file: FileArgument,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Describe a file or folder with its main figures.

    Recognises by content everything that bioattn writes, and alignments, PDB, mmCIF, CASP RR, BED, tables and
    published parameters.
    """
    from bioattn.store.inspection import as_json, as_text, inspect_file

    description = inspect_file(file)
    typer.echo(as_json(description) if json else as_text(description, file.name or str(file)))
