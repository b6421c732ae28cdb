"""Writing an attention file so that it survives being killed: parts first, assembled at the end.

`NAME.partial/` holds `job.json` (what is being computed) and `part-00000.h5`, each a complete attention file over
some consecutive samples, named only once closed. When all exist they are assembled in order into
`NAME.partial/assembled.h5`, which is then renamed to `NAME`. An HDF5 file that was being written when its process
was killed is unreadable, and appending to one after a kill changes its bytes: whole parts give neither problem.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.files import read_json, unwritable, write_json
from bioattn.progress import NoProgress, Progress
from bioattn.store.attention_writer import AttentionHeader, AttentionWriter, attention_writer
from bioattn.store.hdf5_access import open_hdf5, strings
from bioattn.store.schema import PREDICTIONS, Samples, SiteLayout

JOB_FILE = "job.json"
ASSEMBLED = "assembled.h5"
SLAB_BYTES = 1 << 24
"""Bytes of one array moved at a time while assembling."""
OVERHEAD_BYTES_PER_SAMPLE = 100
"""Names and places of a sample in the samples, predictions and one site group, generously."""
FIXED_BYTES = 1 << 15
"""Headers and indexes of a small file."""

try:
    import fcntl
except ImportError:  # Windows: no advisory locks, so two runs on one output are not told apart there
    fcntl = None  # type: ignore[assignment]


class Block(NamedTuple):
    """Consecutive samples read back from a part."""

    samples: Samples
    arrays: dict[str, dict[str, NDArray[np.floating]]]
    predictions: NDArray[np.float32]


def partial_folder(output: Path) -> Path:
    """Where the parts of `output` lie until it is complete."""
    return output.with_name(output.name + ".partial")


def attention_bytes(layouts: Sequence[SiteLayout], num_samples: int, num_treatments: int) -> int:
    """Bytes of the finished file, to a few percent: arrays (whole chunks), predictions and sample names."""
    arrays = sum(layout.stored_bytes(num_samples) for layout in layouts)
    names = (len(layouts) + 1) * OVERHEAD_BYTES_PER_SAMPLE
    return arrays + num_samples * (4 * num_treatments + names) + FIXED_BYTES


class PartStore:
    """The parts of one output; made by `open_parts`."""

    def __init__(
        self,
        output: Path,
        header: AttentionHeader,
        layouts: Sequence[SiteLayout],
        treatments: Sequence[str],
        num_samples: int,
        part_samples: int,
    ) -> None:
        self.output = output
        self.folder = partial_folder(output)
        self.header = header
        self.layouts = tuple(layouts)
        self.treatments = tuple(treatments)
        self.num_samples = num_samples
        self.part_samples = part_samples

    @property
    def num_parts(self) -> int:
        """Parts of the whole job."""
        return -(-self.num_samples // self.part_samples)

    def samples_of(self, part: int) -> range:
        """Which samples (0-based, file order) belong to a part."""
        first = part * self.part_samples
        return range(first, min(first + self.part_samples, self.num_samples))

    def is_whole(self, part: int) -> bool:
        """Whether the part was written and closed."""
        return self._path(part).is_file()

    def bytes_on_disk(self) -> int:
        """Bytes of the parts that are whole."""
        return sum(self._path(part).stat().st_size for part in range(self.num_parts) if self.is_whole(part))

    @contextmanager
    def part_writer(self, part: int) -> Iterator[AttentionWriter]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        path = self._path(part)
        unfinished = path.with_name(f"unfinished-{path.name}")
        try:
            with write_errors(self.output, self.folder):
                with attention_writer(
                    unfinished,
                    self.header,
                    self.layouts,
                    self.treatments,
                    len(self.samples_of(part)),
                    chunked=False,
                ) as writer:
                    yield writer
                unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def assemble(
        self, *, on_block: Callable[[Block], None] | None = None, progress: Progress | None = None
    ) -> None:
        """Make the output from the parts, replacing an older one; `on_block` sees what goes into it, in order.

        Raises: BioattnError when the disk is full; FormatError when a part is damaged (the part is removed, so
        that resuming makes it again).
        """
        progress = progress or NoProgress()
        assembled = self.folder / ASSEMBLED
        progress.begin("assembling", self.num_samples)
        try:
            with write_errors(self.output, self.folder):
                with attention_writer(
                    assembled, self.header, self.layouts, self.treatments, self.num_samples
                ) as writer:
                    for block in self.blocks():
                        writer.append(block.samples, block.arrays, block.predictions)
                        if on_block is not None:
                            on_block(block)
                        progress.advance(len(block.samples.ids))
                assembled.replace(self.output)
        finally:
            assembled.unlink(missing_ok=True)
            progress.end()

    def blocks(self) -> Iterator[Block]:
        """What all parts hold, in order, a few megabytes at a time."""
        widest = max((layout.bytes_per_sample for layout in self.layouts), default=1)
        step = max(1, SLAB_BYTES // max(1, widest))
        for part in range(self.num_parts):
            path = self._path(part)
            try:
                with open_hdf5(path) as file:
                    size = len(self.samples_of(part))
                    for first in range(0, size, step):
                        yield self._read(file, slice(first, min(first + step, size)))
            except FormatError as error:
                path.unlink(missing_ok=True)
                raise FormatError(
                    f"{error}; the damaged part was removed, run again with --resume to make it again"
                ) from error

    def _read(self, file: h5py.File, rows: slice) -> Block:
        samples = file["samples"]
        return Block(
            Samples(
                strings(samples["id"], rows),
                strings(samples["chrom"], rows),
                samples["start"][rows],
                samples["end"][rows],
                strings(samples["strand"], rows),
            ),
            {
                layout.name: {
                    quantity: file[f"sites/{layout.name}/{quantity}"][rows] for quantity in layout.quantities
                }
                for layout in self.layouts
            },
            file[f"{PREDICTIONS}/values"][rows],
        )

    def _path(self, part: int) -> Path:
        return self.folder / f"part-{part:05d}.h5"


@contextmanager
def open_parts(store: PartStore, job: Mapping[str, Any], *, resume: bool, force: bool) -> Iterator[PartStore]:
    """Make or re-use the folder of parts of `store` for `job` and keep other runs out of it meanwhile.

    With `resume`, parts of the same job are kept (none need exist); with `force`, whatever parts there are go.
    The folder stays when the body fails after a part was completed, and goes when it ends well.

    Raises: BioattnError when parts exist and neither was asked for, when they belong to another job, or when
    another process writes them.
    """
    folder = store.folder
    if store.output.is_dir():
        raise BioattnError(f"{store.output}: is a folder, a file name is needed")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(store.output, error) from error
    with _locked(folder):
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
        with write_errors(store.output, folder):
            write_json(folder / JOB_FILE, job)
        try:
            yield store
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


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock goes with the process, however it ends."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BioattnError(f"{folder}: another run is writing this output; wait for it") from None
        except OSError:
            pass  # some network file systems have no locks
        yield
    finally:
        os.close(descriptor)


def _clear(folder: Path, *, keep_folder: bool = False) -> None:
    """Remove our own files, and the folder unless something else lies in it."""
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


def require_free_space(output: Path, needed: int, already: int, human: str) -> None:
    """Refuse a job the disk cannot hold. `already`: bytes of parts that exist and are re-used.

    The parts and the assembled file exist side by side for a moment, so twice the size is needed.
    """
    folder = output.absolute().parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise unwritable(output, error) from error
    wanted = 2 * needed - already
    if wanted > free:
        raise BioattnError(
            f"{output}: needs {wanted:,} bytes while it is written ({human}, and as much for its parts) but "
            f"only {free:,} are free in {folder}; choose fewer --treatment, --sites or --heads, --reduce, or "
            "another disk"
        )
