"""The folder of parts of an output that is still being made: `NAME.partial/`, its job, its errors.

`NAME.partial/` holds `job.json` (what is being computed) and `part-00000.h5`, …, each named only once closed. When
all exist they become one file that is then renamed to `NAME`. An HDF5 file that was being written when its process
was killed is unreadable, and appending to one after a kill changes its bytes: whole parts give neither problem.
"""

import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError
from bioattn.io.files import read_json, unwritable, write_json
from bioattn.io.folders import remove_unfinished
from bioattn.io.input_watch import require_unchanged_inputs
from bioattn.io.output_lock import lock_output
from bioattn.io.output_names import partial_folder

JOB_FILE = "job.json"
ASSEMBLED = "assembled.h5"


def part_path(output: Path, part: int) -> Path:
    """The name of one part of `output`, which it gets when it is whole."""
    return partial_folder(output) / f"part-{part:05d}.h5"


@contextmanager
def part_output(output: Path, part: int) -> Iterator[Path]:
    """A name to write one part to; it becomes the part when the body ends well, and goes otherwise.

    Raises: BioattnError when the disk is full or the folder is not writable.
    """
    path = part_path(output, part)
    unfinished = path.with_name(f"unfinished-{path.name}")
    try:
        with write_errors(output, path.parent):
            yield unfinished
            require_unchanged_inputs(output)
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def assembled_output(output: Path) -> Iterator[Path]:
    """A name to put the parts together under; it becomes `output` when the body ends well, and goes otherwise.

    Raises: BioattnError when the disk is full or the folder is not writable.
    """
    assembled = partial_folder(output) / ASSEMBLED
    try:
        with write_errors(output, assembled.parent):
            yield assembled
            require_unchanged_inputs(output)
            assembled.replace(output)
    finally:
        assembled.unlink(missing_ok=True)


@contextmanager
def open_parts(output: Path, job: Mapping[str, Any], *, resume: bool, force: bool) -> Iterator[Path]:
    """Make or re-use the folder of parts of `output` for `job` and keep other runs out of it meanwhile.

    With `resume`, parts of the same job are kept (none need exist); with `force`, whatever parts there are go.
    The folder stays when the body fails after a part was completed, and goes when it ends well.

    Raises: BioattnError when parts exist and neither was asked for, when they belong to another job, or when
    another process writes them.
    """
    folder = partial_folder(output)
    if output.is_dir():
        raise BioattnError(f"{output}: is a folder, a file name is needed")
    with lock_output(output):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(output, error) from error
        kept = sum(1 for _ in folder.glob("part-*.h5"))
        if force:
            _clear(folder, keep_folder=True)
        elif kept and not resume:
            raise BioattnError(
                f"{folder}: holds {kept} parts of an earlier run; give --resume to go on with them or --force to "
                "start again"
            )
        elif kept:
            _require_same_job(folder, job)
        else:
            _clear(folder, keep_folder=True)
        for leftover in [*folder.glob("unfinished-*.h5"), folder / ASSEMBLED]:
            leftover.unlink(missing_ok=True)
        with write_errors(output, folder):
            write_json(folder / JOB_FILE, job)
        try:
            yield folder
        except BaseException:
            if not any(folder.glob("part-*.h5")):
                _clear(folder)
            raise
        _clear(folder)


@contextmanager
def write_errors(output: Path, folder: Path) -> Iterator[None]:
    """Turn a full disk and its like into one sentence that says how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            kept = any(folder.glob("part-*.h5"))
            advice = (
                f"the parts that are complete stay in {folder}: make room and run again with --resume"
                if kept
                else "make room and run again"
            )
            raise BioattnError(
                f"{output}: no space left on the device; nothing was written under this name; {advice}"
            ) from error
        raise unwritable(output, error) from error


def _require_same_job(folder: Path, job: Mapping[str, Any]) -> None:
    try:
        earlier = read_json(folder / JOB_FILE)
    except BioattnError:
        earlier = None
    if not isinstance(earlier, dict):
        raise BioattnError(f"{folder}: its {JOB_FILE} is missing or unreadable; give --force to start again")
    now = json.loads(json.dumps(job))
    different = sorted(key for key in {*now, *earlier} if now.get(key) != earlier.get(key))
    if different:
        raise BioattnError(
            f"{folder}: its parts belong to another run (different: {', '.join(different)}); repeat that run's "
            "command, or give --force to start again"
        )


def _clear(folder: Path, *, keep_folder: bool = False) -> None:
    """Remove our own files, and the folder unless something else lies in it."""
    remove_unfinished(folder)
    for path in [
        *folder.glob("part-*.h5"),
        *folder.glob("unfinished-*.h5"),
        folder / ASSEMBLED,
        folder / JOB_FILE,
    ]:
        path.unlink(missing_ok=True)
    if keep_folder:
        return
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def require_free_space(output: Path, wanted: int, why: str, advice: str) -> None:
    """Refuse a job that needs `wanted` more bytes than the disk of `output` has free.

    why: what takes them; advice: what to do about it. Raises: BioattnError.
    """
    folder = output.absolute().parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise unwritable(output, error) from error
    if wanted > free:
        raise BioattnError(
            f"{output}: needs {wanted:,} bytes while it is written ({why}) but only {free:,} are free in "
            f"{folder}; {advice}"
        )
