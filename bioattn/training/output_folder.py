"""The folder a training run works in, and how it gets its final name: a model folder never exists incomplete."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import partial_path, remove_leftover, run_record_path, text_output, unwritable
from bioattn.io.folders import (
    already_there,
    remove_unfinished,
    replace_folder,
    require_own_files,
    restore_folder,
)
from bioattn.models.family import WEIGHTS
from bioattn.models.model_folder import MODEL_CARD, model_files
from bioattn.store.training_record import TRAINING_RECORD
from bioattn.training.state import STATE_FILE


def is_finished(output: Path) -> bool:
    """Whether `output` is the model folder of a run that ended, and no other run of that name is under way.

    A folder that lacked nothing but its name when its run was killed gets it.
    """
    partial = partial_path(output)
    # The model card is written last, and then the trainer's state goes.
    if (partial / MODEL_CARD).is_file() and not (partial / STATE_FILE).exists() and not output.exists():
        remove_unfinished(partial)
        publish(partial, output)
    files = (output / WEIGHTS, output / TRAINING_RECORD)
    return all(file.is_file() for file in files) and not partial.exists()


@contextmanager
def working_folder(output: Path, *, resume: bool, force: bool) -> Iterator[Path]:
    """The folder of `prepare_output`; it goes when the body fails before there is anything to go on from.

    Raises: as `prepare_output`.
    """
    restore_folder(output, _own_files())
    partial = prepare_output(output, resume=resume, force=force)
    remove_unfinished(partial)
    try:
        yield partial
    finally:
        if not any((partial / name).exists() for name in (STATE_FILE, WEIGHTS)):
            shutil.rmtree(partial, ignore_errors=True)


def prepare_output(output: Path, *, resume: bool, force: bool) -> Path:
    """The folder `<output>.partial` to work in.

    Raises: SettingsError when `output` cannot name a folder; BioattnError when it exists (with `force`: and is no
    model folder) or an interrupted run is in the way, or when what would go holds a file that is not ours.
    """
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    partial = partial_path(output)
    if output.exists() and not force:
        raise already_there(output)
    if (
        output.exists()
        and not (output / WEIGHTS).is_file()
        and not (output.is_dir() and not any(output.iterdir()))
    ):
        raise BioattnError(
            f"{output}: is no model folder, and --force replaces no other; choose another --output"
        )
    # Whether it goes on or fails: in the end what is in either of them may be removed.
    for folder in (partial, output):
        if folder.exists():
            require_own_files(folder, _own_files())
    try:
        if partial.exists() and force and not resume:
            shutil.rmtree(partial)
        if partial.exists() and not resume:
            raise BioattnError(
                f"{partial}: an interrupted run; go on with --resume, or start again with --force"
            )
        partial.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(partial, error) from error
    return partial


def write_history(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Write one row per epoch or round; columns in the order in which they first appear.

    Nine digits hold a float32 as it is: curves of runs that differ in the last bit can be compared.
    """
    columns = list(dict.fromkeys(name for row in history for name in row))
    with text_output(path) as file:
        file.write(",".join(columns) + "\n")
        for row in history:
            cells = [f"{row[name]:.9g}" if name in row else "" for name in columns]
            file.write(",".join(cells) + "\n")


def publish(partial: Path, output: Path) -> None:
    """Give the finished folder its name; an old one under that name steps aside first and goes last.

    The run record of the old one goes: killed before it writes its own, a run has none rather than another's.

    Raises: BioattnError when the folder cannot get its name.
    """
    (partial / STATE_FILE).unlink(missing_ok=True)
    remove_leftover(run_record_path(output))
    try:
        replace_folder(partial, output)
    except OSError as error:
        raise unwritable(output, error) from error


def _own_files() -> frozenset[str]:
    """What bioattn writes into a model folder or its `.partial`; other files there are the user's."""
    return model_files() | {STATE_FILE}
