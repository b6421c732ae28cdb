"""`bioattn run promoter`: responses of promoters to treatments."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.system.device import Device
from bioattn_cli.command import Output, Record, command
from bioattn_cli.inference_options import (
    BatchSizeOption,
    DropPartsOption,
    ModelArgument,
    PromotersArgument,
    TreatmentOption,
    TreatmentTableOption,
    run_model,
)
from bioattn_cli.options import DeviceOption, ResumeOption, ShardOption, StreamOption, ThreadsOption
from bioattn_cli.reporting import Reporter


@command("run promoter")
def promoter(
    reporter: Reporter,
    model: ModelArgument,
    promoters: PromotersArgument,
    output: StreamOption,
    treatment: TreatmentOption = None,
    treatment_table: TreatmentTableOption = None,
    attention: Annotated[
        Path | None,
        typer.Option(help="Also write all attention here as HDF5 (`export attention` has the choices)."),
        Output.FILE,
    ] = None,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    shard: ShardOption = None,
    resume: ResumeOption = False,
    force: DropPartsOption = False,
) -> Record:
    """Predict the response of promoters to treatments.

    Writes a wide TSV, one row per gene and one column per treatment (`-o -` writes to standard output; a .gz name
    gives gzip): responses in the units of training, or probabilities for a binary model. --resume and --force
    apply to the parts that an interrupted run with --attention leaves in ATTENTION.partial.
    """
    return run_model(
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
