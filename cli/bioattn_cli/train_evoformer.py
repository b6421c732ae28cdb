"""`bioattn train evoformer`: an MSA/pair model from alignments with known structures."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bioattn_cli.options import (
    ConfigOption,
    Device,
    DeviceOption,
    ForceOption,
    Precision,
    ResumeOption,
    ThreadsOption,
    command,
)
from bioattn_cli.reporting import Reporter
from bioattn_cli.training_record import write_training_record

if TYPE_CHECKING:
    from bioattn.models.evoformer.training.train import EvoformerTrainingJob


def evoformer(
    reporter: Reporter,
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", help="Dataset of `bioattn prepare contacts`.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    steps: Annotated[
        int | None, typer.Option(min=0, help="Updates on the dataset's families [default: 2000].")
    ] = None,
    simulated_steps: Annotated[
        int | None, typer.Option(min=0, help="Updates on simulated families alone, before [default: 0].")
    ] = None,
    initial_model: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Model folder whose weights and shape to start from."),
    ] = None,
    covariance: Annotated[
        bool,
        typer.Option("--covariance", help="Also give the model covariances of columns as pair features."),
    ] = False,
    uniform_attention: Annotated[
        bool,
        typer.Option("--uniform-attention", help="Weigh all keys of MSA attention alike: a control."),
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Leave out a protein; can be repeated.")
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(help="Arithmetic of the forward pass [default: fp32].")
    ] = None,
    config: ConfigOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random choice [default: 0].")] = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Train an MSA/pair model on distances, contacts and masked residues.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/evoformer-training.md explains), then the options here. Prints how well contacts of the validation
    and test proteins are found, beside couplings. Ctrl-C or SIGTERM finishes the step and saves; --resume goes on,
    with the same weights in the end as if nothing had happened. Several processes or machines train together under
    torchrun: docs/training-on-several-processes.md.
    """
    from bioattn.io.files import check_apart
    from bioattn.models.evoformer.training.model_card import scores_table
    from bioattn.models.evoformer.training.train import train_evoformer
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals
    from bioattn.training.distributed import joined_processes

    started = time.monotonic()
    with stop_on_signals() as stop, joined_processes() as processes:
        if config is not None:
            check_apart(output, [config])
        set_threads(threads)
        chosen = choose_device(device.value)
        job = _job(
            dataset,
            output,
            config,
            initial_model,
            tuple(exclude or ()),
            model={"uniform_msa_attention": uniform_attention or None, "pair_features": covariance},
            training={
                "seed": seed,
                "steps": steps,
                "simulated_steps": simulated_steps,
                "precision": precision,
            },
        )
        reporter.say(f"running on {processes.describe(describe_device(chosen))}")
        scores = train_evoformer(
            job,
            device=chosen,
            resume=resume,
            force=force,
            progress=reporter.progress(),
            stop=stop,
            processes=processes,
        )
    write_training_record(
        reporter,
        output,
        dataset=dataset,
        config=config,
        started=started,
        device=chosen,
        processes=processes,
        finished_before=scores is None,
    )
    if scores:
        for cells in scores_table(scores):
            typer.echo("\t".join(cells))
    if scores is not None:
        reporter.say(f"wrote {output}")


def _job(
    dataset: Path,
    output: Path,
    config: Path | None,
    initial_model: Path | None,
    exclude: tuple[str, ...],
    *,
    model: dict[str, Any],
    training: dict[str, Any],
) -> "EvoformerTrainingJob":
    """Defaults, then the config file, then the options that were given."""
    from bioattn.alignments.couplings import FEATURE_NAMES
    from bioattn.errors import SettingsError
    from bioattn.io.config_file import build, read_toml
    from bioattn.models.evoformer.training.config import EvoformerTrainingConfig
    from bioattn.models.evoformer.training.train import EvoformerTrainingJob

    content = read_toml(config) if config else {}
    for name, value in content.items():
        if name not in ("model", "training") or not isinstance(value, dict):
            raise SettingsError(
                f"{config}: unknown table or key {name!r}; known are the tables [model] and [training]"
            )
    model["pair_features"] = len(FEATURE_NAMES) if model["pair_features"] else None
    model_settings = content.get("model", {}) | {k: v for k, v in model.items() if v is not None}
    training_settings = content.get("training", {}) | {k: v for k, v in training.items() if v is not None}
    return EvoformerTrainingJob(
        dataset_path=dataset,
        output=output,
        model=model_settings,
        training=build(
            EvoformerTrainingConfig, training_settings, f"{config} [training]" if config else "options"
        ),
        initial=initial_model,
        exclude=exclude,
        settings_source=f"{config} [model]" if config else "options",
    )


def register(app: typer.Typer) -> None:
    """Add the command to `bioattn train`."""
    command(app, "evoformer")(evoformer)
