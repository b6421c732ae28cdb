"""Options of commands that ask a promoter model for responses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bioattn.models.attention_settings import DROP_PARTS_HELP, TREATMENT_HELP, TREATMENT_TABLE_HELP
from bioattn_cli.command import Input

if TYPE_CHECKING:
    pass

ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Folder of a trained promoter model."),
    Input(name="model", file="model.safetensors"),
]
PromotersArgument = Annotated[
    Path, typer.Argument(metavar="PROMOTERS", help="Promoter FASTA (`bioattn prepare promoters`).")
]
TreatmentOption = Annotated[
    list[str] | None, typer.Option("--treatment", metavar="NAME", help=TREATMENT_HELP)
]
TreatmentTableOption = Annotated[Path | None, typer.Option(help=TREATMENT_TABLE_HELP)]
DropPartsOption = Annotated[bool, typer.Option("--force", help=DROP_PARTS_HELP)]
