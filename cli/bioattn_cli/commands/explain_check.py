"""`bioattn explain check`: whether a model's attention can be believed."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.system.device import Device
from bioattn_cli.choice_options import TreatmentsOption
from bioattn_cli.command import Input, Output, Record, command
from bioattn_cli.inference_options import ModelArgument, PromotersArgument
from bioattn_cli.options import DeviceOption, OutputOption, SeedOption, ThreadsOption
from bioattn_cli.reporting import Reporter


@command("explain check")
def check(
    reporter: Reporter,
    model: ModelArgument,
    promoters: PromotersArgument,
    output: OutputOption,
    dataset: Annotated[
        Path | None,
        typer.Option(help="The training dataset of MODEL, to measure accuracy on held-out genes."),
    ] = None,
    controls: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Retrain MODEL with uniform attention, with one query for all treatments and with another seed; "
            "keep these models in this folder, use them again, resume an interrupted training. Needs --dataset.",
        ),
        Output.FOLDER,
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=0, help="With --controls: other seeds to retrain [default: 1].")
    ] = None,
    other_model: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MODEL", help="The same model of another seed, to compare maps with; can be repeated."
        ),
        Input(name=""),
    ] = None,
    treatment: TreatmentsOption = None,
    samples: Annotated[int, typer.Option(min=20, help="Promoters to check, drawn by the seed.")] = 300,
    seed: SeedOption = 0,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
) -> Record:
    """Check whether the attention of a model can be believed, without ground truth.

    Prints a verdict in plain words with its measures, and writes both as JSON. With MODEL and PROMOTERS alone it
    tests whether predictions depend on the attended positions (deletion, insertion, in-silico mutagenesis), on
    whose map is used, and on training (random weights). --dataset adds the accuracy on held-out genes, --controls
    whether attention was needed at all. docs/checks.md explains each check.
    """
    from bioattn.errors import SettingsError
    from bioattn.faithfulness.check import Evidence, check_model, check_text
    from bioattn.faithfulness.subject import CheckSettings
    from bioattn.inference.runner import CheckableRunner, with_ability
    from bioattn.io.files import check_apart, write_json
    from bioattn.models.family import load_runner
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals

    if controls is not None and dataset is None:
        raise SettingsError(
            f"--controls {controls}: models are retrained on the dataset; give that with --dataset"
        )
    if seeds is not None and controls is None:
        raise SettingsError(f"--seeds {seeds}: is for --controls, which says where retrained models are kept")
    if controls is not None:
        check_apart(output, [controls])
    set_threads(threads)
    chosen = choose_device(device)
    deed = "have their attention checked"
    loaded = with_ability(load_runner(model, chosen), CheckableRunner, deed)
    evidence = Evidence(
        model_folder=model,
        dataset=dataset,
        controls=controls,
        other_models=[
            with_ability(load_runner(path, chosen), CheckableRunner, deed, "--other-model")
            for path in other_model or []
        ],
    )
    settings = CheckSettings(samples=samples, seed=seed, other_seeds=1 if seeds is None else seeds)
    reporter.say(f"running on {describe_device(chosen)}")
    with stop_on_signals() as stop:
        report = check_model(
            loaded,
            promoters,
            evidence,
            treatments=treatment or (),
            settings=settings,
            progress=reporter.progress(),
            stop=stop,
        )
    typer.echo(check_text(report), nl=False)
    write_json(output, report.to_json())
    return Record(f"wrote {output}", device=str(chosen), verdict=str(report.verdict.code))
