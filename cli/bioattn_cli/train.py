"""`bioattn train …`: train a model of any family from a prepared dataset."""

import time
from typing import TYPE_CHECKING, Any

import typer

from bioattn.models.settings import with_config_file
from bioattn_cli.family_commands import family_verb
from bioattn_cli.reporting import Reporter
from bioattn_cli.verbs import Verb

if TYPE_CHECKING:
    import torch

    from bioattn.training.distributed import Processes

app = typer.Typer(
    cls=Verb, help="Train a model from a prepared dataset.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _verb() -> None:
    """Train a model from a prepared dataset."""


def train(reporter: Reporter, family: Any, settings: Any) -> None:
    """Train, write the run record beside the model folder, and print how good the model is."""
    from bioattn.io.files import check_apart
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals
    from bioattn.training.distributed import joined_processes

    started = time.monotonic()
    with stop_on_signals() as stop, joined_processes() as processes:
        if settings.config is not None:
            check_apart(settings.output, [settings.config])
        set_threads(settings.threads)
        device = choose_device(settings.device)
        settings = with_config_file(settings)
        reporter.say(f"running on {processes.describe(describe_device(device))}")
        tables = family.train(
            settings, device=device, progress=reporter.progress(), stop=stop, processes=processes
        )
    _write_run_record(reporter, settings, started, device, processes, finished_before=tables is None)
    if tables:
        typer.echo("\n\n".join("\n".join("\t".join(row) for row in table) for table in tables))
    if tables is not None:
        reporter.say(f"wrote {settings.output}")


def _write_run_record(
    reporter: Reporter,
    settings: Any,
    started: float,
    device: "torch.device",
    processes: "Processes",
    *,
    finished_before: bool,
) -> None:
    """Write `<output>.run.json`.

    finished_before: this run found nothing left to do. Then a record that is there stays as it is, and a missing
    one is written now: its run was killed before it could.
    """
    from bioattn.io.files import run_record_path, write_run_record

    if not processes.is_first or (finished_before and run_record_path(settings.output).exists()):
        return
    inputs = {"dataset": settings.dataset} | ({"config": settings.config} if settings.config else {})
    figures: dict[str, object] = {"device": device.type}
    if processes.count > 1:
        figures["processes"] = processes.count
    if finished_before:
        figures["finished_before"] = True
    write_run_record(settings.output, reporter.command, inputs, time.monotonic() - started, **figures)


family_verb("train", app, train)
