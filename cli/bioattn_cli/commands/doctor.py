"""`bioattn doctor`: what bioattn finds where it runs, and what stands in its way."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import command
from bioattn_cli.reporting import Reporter


@command("doctor")
def doctor(
    reporter: Reporter,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where results are to stand.", show_default="here")
    ] = Path(),
    json: Annotated[bool, typer.Option("--json", help="The same as JSON, for programs.")] = False,
) -> None:
    """Look at what bioattn runs on: exit code 0 when all that is needed works, 1 when not.

    Tells versions, devices and why there is no other, threads, memory, the limits of containers and batch systems,
    whether files and locks work in FOLDER, and what optional extras would give. Marks what slows work or limits it
    with !, what is broken with X, and says what to do about it.
    """
    from bioattn.system.doctor.examine import as_json, as_text, examine, overall
    from bioattn.system.doctor.finding import Verdict

    findings = examine(folder)
    typer.echo(as_json(findings) if json else as_text(findings))
    if overall(findings) is Verdict.ERROR:
        raise typer.Exit(1)
