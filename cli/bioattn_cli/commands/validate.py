"""`bioattn validate`: whether a file keeps its contract."""

import typer

from bioattn_cli.command import command
from bioattn_cli.options import FileArgument
from bioattn_cli.reporting import Reporter


@command("validate")
def validate(reporter: Reporter, file: FileArgument) -> None:
    """Check a file against its schema: exit code 0 when it is valid, 1 when it is not.

    Every value is read. Of an attention file: digests, row sums, NaN, names, shapes and dimension scales; of
    parameters: check sums and NaN; of a folder of predictions: every file.
    """
    from bioattn.store.inspection import is_valid, validate_file

    problems = validate_file(file, reporter.progress())
    for problem in problems:
        typer.echo(f"{file}: {problem}")
    valid = is_valid(problems)
    typer.echo(f"{file}: {'valid' if valid else 'invalid'}")
    if not valid:
        raise typer.Exit(1)
