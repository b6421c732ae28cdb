"""`bioattn train …`: train a model from a prepared dataset."""

import time
from enum import StrEnum
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
from bioattn_cli.verbs import Verb

if TYPE_CHECKING:
    from bioattn.models.promoter.training.evaluation import Evaluation
    from bioattn.models.promoter.training.train import TrainingJob

app = typer.Typer(
    cls=Verb, help="Train a model from a prepared dataset.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _verb() -> None:
    """Train a model from a prepared dataset."""


# The choices of bioattn.models.promoter.config and bioattn.attention.score, which import torch: --help must not. A
# test compares them.


class Conditioning(StrEnum):
    """How the treatment meets the sequence."""

    CONCAT = "concat"
    FILM = "film"
    CROSS = "cross"
    CROSS_ALL = "cross-all"


class TreatmentEncoding(StrEnum):
    """What a treatment is known by."""

    ID = "id"
    FEATURES = "features"


class AttentionScore(StrEnum):
    """Scoring functions of attention."""

    DOT = "dot"
    ADDITIVE = "additive"
    GAUSSIAN = "gaussian"


@command(app, "promoter")
def promoter(
    reporter: Reporter,
    dataset: Annotated[Path, typer.Argument(metavar="DATASET", help="Dataset of `bioattn prepare dataset`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    conditioning: Annotated[
        Conditioning | None, typer.Option(help="How treatment meets sequence [default: cross].")
    ] = None,
    treatment_encoder: Annotated[
        TreatmentEncoding | None,
        typer.Option(help="Treatments known by id or by features of the treatment table [default: id]."),
    ] = None,
    hops: Annotated[
        int | None, typer.Option(min=1, help="How often treatments query positions [default: 1].")
    ] = None,
    num_heads: Annotated[int | None, typer.Option(min=1, help="Attention heads [default: 4].")] = None,
    attention_score: Annotated[
        AttentionScore | None, typer.Option(help="Scoring function [default: dot].")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="The treatment that is the control, for contrasts.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the training promoters at most [default: 40].")
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(help="Arithmetic of the forward pass [default: fp32].")
    ] = None,
    config: ConfigOption = None,
    baselines: Annotated[
        bool, typer.Option(help="Fit simple models on the same split, to compare with.")
    ] = True,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random choice [default: 0].")] = None,
    device: DeviceOption = Device.AUTO,
    threads: ThreadsOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Train a model that predicts every promoter's response to every treatment.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/promoter.md explains), then the options here. Prints how well validation and test genes are
    predicted, beside simple models, and test genes by treatment. Ctrl-C or SIGTERM finishes the step and saves;
    --resume goes on, with the same weights in the end as if nothing had happened. Several processes or machines
    train together under torchrun: docs/training-on-several-processes.md.
    """
    from bioattn.io.files import check_apart
    from bioattn.models.promoter.training.train import train_promoter
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
            model={
                "conditioning": conditioning,
                "treatment_encoder": treatment_encoder,
                "hops": hops,
                "num_heads": num_heads,
                "attention_score": attention_score,
            },
            training={"seed": seed, "epochs": epochs, "precision": precision},
            reference=reference,
            baselines=baselines,
        )
        reporter.say(f"running on {processes.describe(describe_device(chosen))}")
        evaluation = train_promoter(
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
        finished_before=evaluation is None,
    )
    if evaluation is not None:
        _print_figures(evaluation)
        reporter.say(f"wrote {output}")


def _job(
    dataset: Path,
    output: Path,
    config: Path | None,
    *,
    model: dict[str, Any],
    training: dict[str, Any],
    reference: str | None,
    baselines: bool,
) -> "TrainingJob":
    """Defaults, then the config file, then the options that were given."""
    from bioattn.errors import SettingsError
    from bioattn.io.config_file import build, read_toml
    from bioattn.models.promoter.training.config import TrainingConfig
    from bioattn.models.promoter.training.train import TrainingJob

    content = read_toml(config) if config else {}
    known = {
        "model": (dict, "a table"),
        "training": (dict, "a table"),
        "treatment_columns": (list, "a list of column names"),
        "reference": (str, "the name of a treatment"),
    }
    for name, value in content.items():
        if name not in known:
            raise SettingsError(
                f"{config}: unknown table or key {name!r}; "
                "known are [model], [training], treatment_columns and reference"
            )
        kind, wanted = known[name]
        if not isinstance(value, kind):
            raise SettingsError(f"{config}: {name} is {value!r}; {wanted} is needed")
    model_settings = {**content.get("model", {}), **{k: v for k, v in model.items() if v is not None}}
    training_settings = {
        **content.get("training", {}),
        **{k: v for k, v in training.items() if v is not None},
    }
    source = f"{config} [training]" if config else "options"
    return TrainingJob(
        dataset_path=dataset,
        output=output,
        model=model_settings,
        training=build(TrainingConfig, training_settings, source),
        treatment_columns=tuple(content.get("treatment_columns", ())),
        reference=reference or content.get("reference"),
        baselines=baselines,
        settings_source=f"{config} [model]" if config else "options",
    )


def _print_figures(evaluation: "Evaluation") -> None:
    """The comparison and the figures per treatment as tab-separated text on stdout."""
    from bioattn.models.promoter.training.model_card import figures_table

    for cells in figures_table(evaluation):
        typer.echo("\t".join(cells))
    if evaluation.treatments:
        typer.echo("")
        typer.echo("\t".join(["treatment", *evaluation.per_treatment]))
        for i, name in enumerate(evaluation.treatments):
            values = [f"{values[i]:.3f}" for values in evaluation.per_treatment.values()]
            typer.echo("\t".join([name, *values]))
