"""The run record that every `train` command writes when it is done."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    import torch

    from bioattn.training.distributed import Processes


def write_training_record(
    reporter: Reporter,
    output: Path,
    *,
    dataset: Path,
    config: Path | None,
    started: float,
    device: "torch.device",
    processes: "Processes",
    finished_before: bool,
) -> None:
    """Write `<output>.run.json`.

    started: by `time.monotonic`. finished_before: this run found nothing left to do. Then a record that is there
    stays as it is, and a missing one is made up for: its run was killed before it could write it.
    """
    from bioattn.io.files import run_record_path, write_run_record

    if not processes.is_first or (finished_before and run_record_path(output).exists()):
        return
    inputs = {"dataset": dataset} | ({"config": config} if config else {})
    figures: dict[str, object] = {"device": device.type}
    if processes.count > 1:
        figures["processes"] = processes.count
    if finished_before:
        figures["finished_before"] = True
    write_run_record(output, reporter.command, inputs, time.monotonic() - started, **figures)
