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
        Path, typer.Argument(metavar="FOLDER", help="Folder for results.", show_default="here")
    ] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Examine the machine and the installation: exit code 0 when all requirements work, 1 when not.

    Reports versions, devices (and why a GPU is not used), threads, memory, limits of containers and batch systems,
    whether files and locks work in FOLDER, and the features of optional extras. Marks limits with ! and errors
    with X, each with advice.
    """
    from bioattn.system.doctor.diagnosis import Status
    from bioattn.system.doctor.examine import as_json, as_text, examine, overall

    diagnoses = examine(folder)
    typer.echo(as_json(diagnoses) if json else as_text(diagnoses))
    if overall(diagnoses) is Status.ERROR:
        raise typer.Exit(1)
