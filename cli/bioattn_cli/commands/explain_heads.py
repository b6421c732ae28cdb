"""`bioattn explain heads`: what each attention head matters, and a model with fewer of them."""

from pathlib import Path
from typing import Annotated

import typer

from bioattn.choices import Subset
from bioattn.system.device import Device
from bioattn_cli.command import Output, Record, command
from bioattn_cli.options import DeviceOption, ForceOption, ThreadsOption
from bioattn_cli.reporting import Reporter


@command("explain heads")
def heads(
    reporter: Reporter,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a trained promoter or MSA/pair model.")
    ],
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", help="Promoter or contact dataset the model was trained on.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of tables to write."), Output.FOLDER],
    split: Annotated[
        Subset, typer.Option(help="Genes or proteins on which importance is measured.")
    ] = Subset.VALIDATION,
    prune_to: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Keep N heads in all, at least one per site (promoter models)."
        ),
    ] = None,
    pruned_model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where --prune-to writes the smaller model."),
        Output.FOLDER,
    ] = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    force: ForceOption = False,
) -> Record:
    """Rank attention heads by their importance for the predictions of a model.

    Importance is the mean absolute gradient of the loss with respect to a mask on the head (Michel et al. 2019).
    For promoter models the command also leaves each head out, and prunes the least important heads one after the
    other. --prune-to writes a model with the kept heads, which every command takes; heads keep their numbers.

    bioattn explain heads model X.dataset.h5 -o heads --prune-to 2 --pruned-model small
    """
    from bioattn.interpret.heads.report import explain_heads
    from bioattn.system.device import choose_device, set_threads
    from bioattn.text import counted

    set_threads(threads)
    chosen = choose_device(device.value)
    report = explain_heads(
        model,
        dataset,
        output,
        device=chosen,
        split=split.value,
        prune_to=prune_to,
        pruned_model=pruned_model,
        force=force,
        progress=reporter.progress(),
    )
    reporter.say(
        f"{counted(report.heads, 'head')} at {counted(report.sites, 'site')}; most important: head "
        f"{report.most[1]} of {report.most[0]}, least: head {report.least[1]} of {report.least[0]}"
    )
    if report.whole is not None and report.pruned is not None:
        reporter.say(
            f"{prune_to} of {report.heads} heads: accuracy {report.pruned.accuracy:.4f}, with all "
            f"{report.whole.accuracy:.4f} ({split.value} genes)"
        )
    if report.test is not None:
        reporter.say(f"on test genes: accuracy {report.test[1]:.4f}, with all heads {report.test[0]:.4f}")
    written = [output] if pruned_model is None else [pruned_model, output]
    return Record(*(f"wrote {path}" for path in written), outputs=written, device=chosen.type)
