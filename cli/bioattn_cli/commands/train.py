"""`bioattn train …`: train a model of any family from a prepared dataset."""

from typing import Any

import typer

from bioattn.models.settings import with_config_file
from bioattn_cli.command import Record
from bioattn_cli.family_commands import family_verb
from bioattn_cli.reporting import Reporter


@family_verb("train")
def train(reporter: Reporter, family: Any, settings: Any) -> Record | None:
    """Train, and print how good the model is.

    When nothing is left to do, a run record that is there stays as it is and a missing one is written: its run
    was killed before it could write one.
    """
    from bioattn.io.output_names import run_record_path
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals
    from bioattn.training import run as training
    from bioattn.training.distributed import joined_processes

    with stop_on_signals() as stop, joined_processes() as processes:
        set_threads(settings.threads)
        device = choose_device(settings.device)
        settings = with_config_file(settings)
        reporter.say(f"running on {processes.describe(describe_device(device))}")
        results = training.train(
            family, settings, device=device, progress=reporter.progress(), stop=stop, processes=processes
        )
    tables = [] if results is None else results.tables()
    if tables:
        typer.echo("\n\n".join("\n".join("\t".join(row) for row in table) for table in tables))
    finished_before = results is None
    if not processes.is_first or (finished_before and run_record_path(settings.output).exists()):
        return None
    figures: dict[str, Any] = {"device": device.type}
    if processes.count > 1:
        figures["processes"] = processes.count
    if finished_before:
        figures["finished_before"] = True
    return Record(*([] if finished_before else [f"wrote {settings.output}"]), **figures)
