"""Options that mean the same in every command."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.system.device import Device
from bioattn_cli.command import Input, Output

_Output = typer.Option("--output", "-o", help="Result to write.")
OutputOption = Annotated[Path, _Output, Output.FILE]
StreamOption = Annotated[Path, _Output, Output.STREAM]
FolderOption = Annotated[Path, _Output, Output.FOLDER]
ResultOption = Annotated[Path, _Output, Output.OTHER]
"""Checked by what writes it: several files, or a file or a folder."""
DeviceOption = Annotated[
    Device, typer.Option(help="Device of the model; auto takes a GPU if one is present.")
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", "-t", min=1, help="CPU threads [default: the cores granted to this process]."),
]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of every random choice.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing result.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
ShardOption = Annotated[
    str | None,
    typer.Option(
        metavar="K/N",
        help="Run only the K-th of N parts of the inputs, such as 3/8; `bioattn merge` joins them.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="TOML file with any setting; options override it."),
    Input(name=""),
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Any file or folder of bioattn.")]
