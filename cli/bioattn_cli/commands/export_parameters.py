"""`bioattn export parameters`: the parameters of an MSA/pair model from one published form into another."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.command import Input, Record, command
from bioattn_cli.commands.family_runs import record_of
from bioattn_cli.options import ResultOption
from bioattn_cli.reporting import Reporter


@command("export parameters")
def parameters(
    reporter: Reporter,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Model folder, AlphaFold's params_model_*.npz, or an OpenFold .pt state dict.",
        ),
        Input(name=""),
    ],
    output: ResultOption,
    structure_layers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Layers of the structure module; parameter files lack this number, because the layers share "
            "their weights [default: 8].",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model folder.")] = False,
) -> Record:
    """Write the parameters of an MSA/pair model in another form.

    The name of the output chooses the form: .npz for AlphaFold's keys and layouts, .pt for OpenFold's state dict,
    no suffix for a model folder. Arrays of a template embedder are left out, with a warning.
    """
    from bioattn.models.family import ability, family_of_parameters

    write = ability(family_of_parameters(model), "export_parameters")
    return record_of(write(model, output, structure_layers=structure_layers, force=force))
