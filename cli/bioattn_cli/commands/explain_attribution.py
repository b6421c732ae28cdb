"""`bioattn explain attribution`: what each base adds to a prediction."""

from typing import Annotated

import typer

from bioattn.interpret.choices import AttributionBaseline
from bioattn.store.choices import Method
from bioattn.system.device import Device
from bioattn_cli.choice_options import GenesOption
from bioattn_cli.command import Record, command
from bioattn_cli.inference_options import (
    DropPartsOption,
    ModelArgument,
    PromotersArgument,
    TreatmentOption,
    TreatmentTableOption,
)
from bioattn_cli.options import (
    DeviceOption,
    OutputOption,
    ResumeOption,
    SeedOption,
    ShardOption,
    ThreadsOption,
)
from bioattn_cli.reporting import Reporter


@command("explain attribution")
def attribution(
    reporter: Reporter,
    model: ModelArgument,
    promoters: PromotersArgument,
    output: OutputOption,
    method: Annotated[
        Method,
        typer.Option(
            help="ism mutates every base to every other; gradient-input and integrated-gradients use the "
            "model's gradient."
        ),
    ] = Method.ISM,
    treatment: TreatmentOption = None,
    treatment_table: TreatmentTableOption = None,
    genes: GenesOption = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="integrated-gradients: points on the path from the baseline [default: 50]."),
    ] = None,
    baseline: Annotated[
        AttributionBaseline | None,
        typer.Option(help="integrated-gradients: the baseline, where the path begins [default: uniform]."),
    ] = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    shard: ShardOption = None,
    resume: ResumeOption = False,
    force: DropPartsOption = False,
) -> Record:
    """Write the contribution of each base of each promoter to the response to each treatment, as HDF5.

    For every position the file holds a value for each of the four bases, centred on their mean. The difference of
    two values is the effect of replacing one base by the other; the value of the present base is its contribution.
    Binary models are explained in log-odds. The command prints the size first and refuses a file larger than the
    free disk. Until the file is complete, parts are kept in OUTPUT.partial; --resume continues from them, --force
    drops them. docs/formats/attribution.md has the schema.

    bioattn explain attribution model promoters.fa -o explain.h5 --treatment heat --genes genes.txt
    """
    from bioattn.errors import SettingsError
    from bioattn.inference.runner import ResponseRunner, with_ability
    from bioattn.interpret.attribution.methods import MethodSettings
    from bioattn.interpret.attribution.run import run_attribution
    from bioattn.models.family import load_runner
    from bioattn.promoters.treatments import read_treatment_table, select_treatments
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.shard import parse_shard
    from bioattn.text import counted, human_bytes

    part = None if shard is None else parse_shard(shard)
    for option, value in (("--steps", steps), ("--baseline", baseline)):
        if value is not None and method is not Method.INTEGRATED_GRADIENTS:
            raise SettingsError(f"{option} is for --method integrated-gradients, not {method}; leave it out")
    set_threads(threads)
    chosen = choose_device(device)
    loaded = with_ability(
        load_runner(model, chosen), ResponseRunner, "be explained base by base: they predict no responses"
    )
    reporter.say(f"running on {describe_device(chosen)}")
    table = None if treatment_table is None else read_treatment_table(treatment_table)
    treatments = select_treatments(loaded.treatments, treatment or (), table)
    summary, completeness = run_attribution(
        loaded,
        promoters,
        output,
        settings=MethodSettings(
            method=method,
            steps=50 if steps is None else steps,
            baseline=baseline or AttributionBaseline.UNIFORM,
            seed=seed,
        ),
        treatments=treatments,
        genes=genes or (),
        shard=part,
        resume=resume,
        force=force,
        progress=reporter.progress(),
    )
    number, gap, difference = len(treatments.names), completeness.largest_gap, completeness.largest_difference
    scope = f"{counted(summary.num_samples, 'promoter')} × {counted(number, 'treatment')}"
    reporter.say(f"wrote {output}: attribution ({method}) of {scope}, {human_bytes(summary.num_bytes)}")
    if gap is not None and difference is not None:
        tell = reporter.warn if gap > 0.05 * difference else reporter.say
        tell(
            f"completeness: contributions miss f(promoter) − f(baseline) by at most {gap:.3g} (those of a "
            f"promoter sum to up to {difference:.3g}); more --steps bring them closer"
        )
    return Record(
        device=str(chosen),
        promoters=summary.num_samples,
        treatments=number,
        resumed_promoters=summary.resumed_samples,
        largest_completeness_gap=gap,
    )
