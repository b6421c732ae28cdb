"""`bioattn run …`: run a trained model on new input."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn_cli.inference_options import (
    BatchSizeOption,
    DropPartsOption,
    ModelArgument,
    PromotersArgument,
    TreatmentOption,
    TreatmentTableOption,
    run_model,
)
from bioattn_cli.options import (
    Device,
    DeviceOption,
    OutputOption,
    ResumeOption,
    ShardOption,
    ThreadsOption,
    command,
)
from bioattn_cli.reporting import Reporter
from bioattn_cli.verbs import Verb

app = typer.Typer(
    cls=Verb, help="Run a trained model on new input.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _verb() -> None:
    """Run a trained model on new input."""


@command(app)
def promoter(
    reporter: Reporter,
    model: ModelArgument,
    promoters: PromotersArgument,
    output: OutputOption,
    treatment: TreatmentOption = None,
    treatment_table: TreatmentTableOption = None,
    attention: Annotated[
        Path | None,
        typer.Option(help="Also write all attention here as HDF5 (`export attention` has the choices)."),
    ] = None,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    shard: ShardOption = None,
    resume: ResumeOption = False,
    force: DropPartsOption = False,
) -> None:
    """Predict the response of promoters to treatments.

    Writes a wide TSV, one row per gene and one column per treatment (`-o -` writes to standard output; a .gz name
    gives gzip): responses in the units of training, or probabilities for a binary model. --resume and --force
    speak of the parts that an interrupted run with --attention leaves in ATTENTION.partial.
    """
    run_model(
        reporter,
        model,
        promoters,
        predictions=output,
        attention=attention,
        options=None,
        treatment=treatment,
        treatment_table=treatment_table,
        device=device,
        threads=threads,
        batch_size=batch_size,
        shard=shard,
        resume=resume,
        force=force,
    )
