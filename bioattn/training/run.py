"""From settings to a model folder: the one function behind `bioattn train FAMILY`."""

import logging
import platform
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from bioattn import __version__
from bioattn.errors import FormatError
from bioattn.io.files import check_apart, text_output
from bioattn.models.model_folder import MODEL_CARD, read_model_config
from bioattn.store.training_record import (
    COMPARISON,
    HISTORY,
    TRAINING_RECORD,
    read_training_record,
    write_training_record,
)
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.training.distributed import ALONE, Processes
from bioattn.training.output_folder import is_finished, publish, working_folder, write_history
from bioattn.training.settings import TrainingCommand
from bioattn.training.state import STATE_FILE, Job, plain_job, require_finished_by
from bioattn.training.task import Results, Task
from bioattn.training.trainer import Outcome, Trainer, TrainingEvents

LOGGER = logging.getLogger("bioattn")


class TrainableFamily(Protocol):
    """A family whose models can be trained."""

    name: str

    def task(self, settings: Any, device: torch.device) -> Task:
        """What is trained by these settings. Raises: SettingsError when they contradict each other or the data."""


def train(
    family: TrainableFamily,
    settings: TrainingCommand,
    *,
    device: torch.device,
    progress: Progress = SILENT,
    stop: StopRequest | None = None,
    processes: Processes = ALONE,
) -> Results | None:
    """Train a model and write its folder, which never exists incomplete: until the end everything lies in
    `<output>.partial/`. Returns None when, with `resume`, the same job had been finished before, and in all
    processes but the first, which does what is left when training is over.

    Raises: SettingsError on settings that do not fit; BioattnError on bad data, an output that exists (without
    `force`) or an interrupted run (without `resume` or `force`); Interrupted when `stop` was requested;
    LostProcess when another process ended.
    """
    finished = processes.is_first and settings.resume and not settings.force and is_finished(settings.output)
    if processes.from_first(finished):
        if processes.is_first:
            task = family.task(settings, device)
            require_finished_by(settings.output, _finished_job(family, task, settings.output), _job(task))
            LOGGER.info(
                f"{settings.output}: finished before with the same data and settings, nothing is left to do"
            )
        return None
    check_apart(settings.output, settings.input_paths().values())
    events = None
    if settings.log_dir is not None and processes.is_first:
        events = TrainingEvents(Path(settings.log_dir), settings.output)
    folder = (
        working_folder(settings.output, resume=settings.resume, force=settings.force)
        if processes.is_first
        else nullcontext()
    )
    with folder as partial:
        task = family.task(settings, device)
        job = _job(task)
        processes.require_same_job(job)
        task.prepare(progress)
        processes.warn_of_idle(*task.work_per_step)
        LOGGER.info(f"training {task.summary}")
        trainer = Trainer(
            task,
            job,
            state_path=None if partial is None else partial / STATE_FILE,
            progress=progress,
            stop=stop or StopRequest(),
            processes=processes,
            events=events,
        )
        with closing(events) if events is not None else nullcontext():
            outcome = trainer.run(resume=settings.resume)
        return None if partial is None else _finish(task, outcome, partial, settings.output, progress)


def _finish(task: Task, outcome: Outcome, partial: Path, output: Path, progress: Progress) -> Results:
    """Write what is left of the model folder and give it its name."""
    task.model.load_state_dict(outcome.best_weights)
    task.model.eval()
    results = task.evaluate(progress)
    write_history(partial / HISTORY, outcome.history)
    files = task.write(partial)
    comparison = results.comparison()
    record = {
        **task.record(),
        f"{task.counts}s_trained": outcome.trained,
        f"best_{task.counts}": outcome.best,
        "versions": {
            "bioattn": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "evaluation": results.to_json(),
        COMPARISON: None if comparison is None else comparison.to_json(),
    }
    write_training_record(partial, record, (*files, HISTORY))
    with text_output(partial / MODEL_CARD) as file:
        file.write("\n".join(task.card(record, results)) + "\n")
    publish(partial, output)
    return results


def _job(task: Task) -> Job:
    return plain_job({"bioattn_version": __version__, **task.digest})


def _finished_job(family: TrainableFamily, task: Task, folder: Path) -> Job:
    """The job by which a model folder was trained."""
    config = read_model_config(folder, family.name)
    record = read_training_record(folder)
    try:
        version = record["versions"]["bioattn"]
        return plain_job({"bioattn_version": version, **task.finished_digest(config, record)})
    except (KeyError, TypeError) as error:
        raise FormatError(f"{folder / TRAINING_RECORD}: is incomplete ({error!r})") from error
