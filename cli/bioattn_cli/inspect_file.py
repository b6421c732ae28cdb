"""`bioattn inspect` and `bioattn validate`: what a file is, and whether it keeps its contract."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.options import command
from bioattn_cli.reporting import Reporter

_FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Any file or folder of bioattn.")]


def inspect(
    reporter: Reporter,
    file: _FileArgument,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON, for programs.")] = False,
) -> None:
    """Say what a file is and give its main figures.

    Knows everything that bioattn writes, and alignments, PDB, mmCIF, CASP RR, BED, tables and published
    parameters, by their content.
    """
    from bioattn.store.inspection import as_json, as_text, inspect_file

    description = inspect_file(file)
    typer.echo(as_json(description) if json else as_text(description, file.name or str(file)))


def validate(reporter: Reporter, file: _FileArgument) -> None:
    """Check a file against its schema: exit code 0 when it is valid, 1 when it is not.

    Every value is read. Of an attention file: digests, row sums, NaN, names, shapes and dimension scales; of
    parameters: check sums and NaN; of a folder of predictions: every file.
    """
    from bioattn.store.validation import is_valid, validate_file

    findings = validate_file(file, reporter.progress())
    for finding in findings:
        typer.echo(f"{file}: {finding}")
    valid = is_valid(findings)
    typer.echo(f"{file}: {'valid' if valid else 'invalid'}")
    if not valid:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    command(app)(inspect)
    command(app)(validate)
