"""From settings to a model folder, which never exists incomplete: the one function behind `bioattn train FAMILY`.

Until the end everything lies in `<output>.partial`.
"""

import json
import logging
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import (
    check_apart,
    final_name,
    partial_path,
    remove_leftover,
    run_record_path,
    text_output,
    writing,
)
from bioattn.io.folders import already_there, replace_folder, require_own_files, restore_folder
from bioattn.models.family import WEIGHTS
from bioattn.models.model_folder import MODEL_CARD, model_files, read_model_config
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
from bioattn.training.settings import TrainingCommand
from bioattn.training.state import STATE_FILES, Job, job_differences, state_file
from bioattn.training.task import Results, Task
from bioattn.training.trainer import Trainer

LOGGER = logging.getLogger("bioattn")
JOB = "job"


def train(
    family: Any,
    settings: TrainingCommand,
    *,
    device: torch.device,
    progress: Progress = SILENT,
    stop: StopRequest | None = None,
    processes: Processes = ALONE,
) -> Results | None:
    """Train the model of `family.task(settings, device)` and write its folder.

    Returns None when, with `resume`, the same job had been finished before, and in all processes but the first,
    which does what is left when training is over.

    Raises: SettingsError on settings that do not fit; BioattnError on bad data, an output that exists (without
    `force`) or an interrupted run (without `resume` or `force`); Interrupted when `stop` was requested;
    LostProcess when another process ended.
    """
    output = settings.output
    finished = processes.is_first and settings.resume and not settings.force and is_finished(output)
    if processes.count > 1:
        finished = processes.from_first(finished)
    if finished:
        if processes.is_first:
            _require_finished_by(output, family, family.task(settings, device))
        return None
    check_apart(output, settings.input_paths().values())
    folder: AbstractContextManager[Path | None] = nullcontext()
    if processes.is_first:
        folder = working_folder(output, resume=settings.resume, force=settings.force)
    with folder as partial:
        task = family.task(settings, device)
        job = _job(__version__, task.digest)
        if processes.count > 1:
            processes.require_same_job(job)
        task.prepare(progress)
        trainers = []
        for number, training in enumerate(task.trainings):
            setting, parts = training.work_per_step if processes.count > 1 else ("", 1)
            if processes.is_first and parts < processes.count:
                LOGGER.warning(
                    f"{setting} is {parts}, so there is nothing to do for {processes.count - parts} of "
                    f"{processes.count} processes; set it to a multiple of {processes.count}"
                )
            LOGGER.info(f"training {training.summary}")
            log = None
            if settings.log_dir is not None and processes.is_first:
                log = Path(settings.log_dir, *([str(number)] if number else []))
            trainers.append(
                Trainer(
                    task=training,
                    job=job,
                    state_path=None if partial is None else partial / state_file(number),
                    progress=progress,
                    stop=stop or StopRequest(),
                    processes=processes,
                    output=output,
                    log_dir=log,
                )
            )
            trainers[-1].run(resume=settings.resume)
        return None if partial is None else _finish(task, trainers, partial, output, progress)


def _finish(
    task: Task, trainers: Sequence[Trainer], partial: Path, output: Path, progress: Progress
) -> Results:
    for trainer in trainers:
        trainer.task.model.load_state_dict(trainer.best_weights)
        trainer.task.model.eval()
    results = task.evaluate(progress)
    counts = trainers[0].task.counts
    _write_history(partial / HISTORY, trainers)
    files = task.write(partial)
    comparison = results.comparison()
    record = {
        **task.record(),
        JOB: task.digest,
        f"{counts}s_trained": sum(trainer.counts[trainer.position.round] for trainer in trainers),
        f"best_{counts}": trainers[0].counts[trainers[0].position.best_round + 1],
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


def _write_history(path: Path, trainers: Sequence[Trainer]) -> None:
    """Write a row for each epoch or round of all trainings, counted on; of several, with the number of the model.
    Columns stand in the order in which they first appear.

    Nine digits hold a float32 as it is: curves of runs that differ in the last bit can be compared.
    """
    rows, before = list[dict[str, float]](), 0
    for number, trainer in enumerate(trainers):
        time = trainer.task.counts
        for row in trainer.position.history:
            of_model = {} if len(trainers) == 1 else {"model": float(number)}
            others = {name: value for name, value in row.items() if name != time}
            rows.append({time: row[time] + before, **of_model, **others})
        before += trainer.counts[trainer.position.round]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with text_output(path) as file:
        file.write(",".join(columns) + "\n")
        for row in rows:
            cells = [f"{row[name]:.9g}" if name in row else "" for name in columns]
            file.write(",".join(cells) + "\n")


def _job(version: str, digest: Mapping[str, Any]) -> Job:
    """As it comes back from JSON, so that it equals what was stored."""
    return dict(json.loads(json.dumps({"bioattn_version": version, **digest})))


def _require_finished_by(output: Path, family: Any, task: Task) -> None:
    """Raises: BioattnError when the model folder `output` was trained by another job."""
    read_model_config(output, family.name)
    record = read_training_record(output)
    try:
        earlier = _job(record["versions"]["bioattn"], record[JOB])
    except (KeyError, TypeError) as error:
        raise FormatError(f"{output / TRAINING_RECORD}: is incomplete ({error!r})") from error
    if different := job_differences(earlier, _job(__version__, task.digest)):
        raise BioattnError(
            f"{output}: is finished, but was trained with other data or settings (different: "
            f"{', '.join(different)}); choose another --output, or --force to replace it"
        )
    LOGGER.info(f"{output}: finished before with the same data and settings, nothing is left to do")


# --- the folder --------------------------------------------------------------------------------------------------


def is_finished(output: Path) -> bool:
    """Whether `output` is the model folder of a run that ended, and no other run of that name is under way."""
    files = (output / WEIGHTS, output / TRAINING_RECORD)
    return all(file.is_file() for file in files) and not partial_path(output).exists()


@contextmanager
def working_folder(output: Path, *, resume: bool, force: bool) -> Iterator[Path]:
    """The folder `<output>.partial`; it goes when the body fails before there is anything to go on from.

    Raises: SettingsError when `output` cannot name a folder; BioattnError when it exists (with `force`: and is no
    model folder) or an interrupted run is in the way, or when what would go holds a file that is not ours.
    """
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    partial = partial_path(output)
    ours = model_files() | {path.name for folder in (partial, output) for path in folder.glob(STATE_FILES)}
    restore_folder(output, ours)
    if output.exists() and not force:
        raise already_there(output)
    is_model = (output / WEIGHTS).is_file() or (output.is_dir() and not any(output.iterdir()))
    if output.exists() and not is_model:
        raise BioattnError(
            f"{output}: is no model folder, and --force replaces no other; choose another --output"
        )
    # Whether it goes on or fails: in the end what is in either of them may be removed.
    for folder in (partial, output):
        if folder.exists():
            require_own_files(folder, ours)
    with writing(partial):
        if partial.exists() and force and not resume:
            shutil.rmtree(partial)
        if partial.exists() and not resume:
            raise BioattnError(
                f"{partial}: an interrupted run; go on with --resume, or start again with --force"
            )
        partial.mkdir(exist_ok=True)
    for path in partial.iterdir():  # temporary files of killed processes
        if final_name(path.name) != path.name and path.is_file():
            remove_leftover(path)
    try:
        yield partial
    finally:
        if not (partial / state_file(0)).exists() and not (partial / WEIGHTS).exists():
            shutil.rmtree(partial, ignore_errors=True)


def publish(partial: Path, output: Path) -> None:
    """Give the finished folder its name; an old one under that name steps aside first and goes last.

    The run record of the old one goes: killed before it writes its own, a run has none rather than another's.

    Raises: BioattnError when the folder cannot get its name.
    """
    remove_leftover(run_record_path(output))
    with writing(output):
        replace_folder(partial, output)
    # Last, so that a run that is killed before it has its name can go on.
    for state in output.glob(STATE_FILES):
        state.unlink()
