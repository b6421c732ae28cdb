"""`bioattn export attention`: where a model looks, as HDF5."""

from typing import Annotated

import typer

from bioattn.choices import parse_heads
from bioattn.store.choices import Reduction, WeightType
from bioattn.system.device import Device
from bioattn_cli.choice_options import HeadsOption, SitesOption
from bioattn_cli.command import Record, command
from bioattn_cli.inference_options import (
    BatchSizeOption,
    DropPartsOption,
    ModelArgument,
    PromotersArgument,
    TreatmentOption,
    TreatmentTableOption,
    run_model,
)
from bioattn_cli.options import DeviceOption, OutputOption, ResumeOption, ShardOption, ThreadsOption
from bioattn_cli.reporting import Reporter


@command("export attention")
def attention(
    reporter: Reporter,
    model: ModelArgument,
    promoters: PromotersArgument,
    output: OutputOption,
    treatment: TreatmentOption = None,
    treatment_table: TreatmentTableOption = None,
    sites: SitesOption = None,
    heads: HeadsOption = None,
    dtype: Annotated[
        WeightType,
        typer.Option(
            help="float16 halves the size, but netCDF programs (and xarray's default engine) cannot read it."
        ),
    ] = WeightType.FLOAT32,
    reduce: Annotated[
        Reduction, typer.Option(help="Mean or maximum over the heads instead of each.")
    ] = Reduction.NONE,
    value_weighted: Annotated[
        bool,
        typer.Option(
            "--value-weighted", help="Also write the weights times the norm of the value that they multiply."
        ),
    ] = False,
    phases: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Average over N windows a fraction of a bin apart: N times finer bins, time and size.",
        ),
    ] = 1,
    batch_size: BatchSizeOption = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    shard: ShardOption = None,
    resume: ResumeOption = False,
    force: DropPartsOption = False,
) -> Record:
    """Write the attention of a model over each promoter for each treatment, as HDF5.

    The command prints the size first and refuses a file larger than the free disk. The file appears when it is
    complete; until then parts are kept in OUTPUT.partial; --resume continues from them, --force drops them.
    docs/formats/attention.md has the schema, and code to read the file with h5py, xarray and R.
    """
    from bioattn.store.schema import AttentionOptions

    if dtype is WeightType.FLOAT16:
        reporter.warn("float16: h5py and h5netcdf read it, netCDF4 and programs built on it do not")
    return run_model(
        reporter,
        model,
        promoters,
        predictions=None,
        attention=output,
        options=AttentionOptions(
            sites=tuple(sites or ("*",)),
            heads=parse_heads(heads),
            dtype=dtype,
            reduce=reduce,
            value_weighted=value_weighted,
            phases=phases,
        ),
        treatment=treatment,
        treatment_table=treatment_table,
        device=device,
        threads=threads,
        batch_size=batch_size,
        shard=shard,
        resume=resume,
        force=force,
    )
