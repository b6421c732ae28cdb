"""Writing a file of results so that it survives being killed: parts first, assembled at the end.

`NAME.partial/` holds `job.json` (what is being computed) and `part-00000.h5`, …: complete files over consecutive
samples, each named only once closed. When all exist they become one file that is then renamed to `NAME`. An HDF5
file that was being written when its process was killed is unreadable, and appending to one after a kill changes
its bytes: whole parts give neither problem. The parts of a sharded run (`bioattn.store.merging`) are put together
in the same way.
"""

import errno
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json, unwritable, write_json
from bioattn.io.folders import remove_unfinished
from bioattn.io.hdf5_input import open_hdf5
from bioattn.io.input_watch import require_unchanged_inputs
from bioattn.io.output_lock import lock_output
from bioattn.io.output_names import partial_folder
from bioattn.store.schema import Block, FileLayout, Slab
from bioattn.store.stored import read_block, sample_slabs
from bioattn.store.writer import ResultWriter, result_writer
from bioattn.system.progress import SILENT, Progress

JOB_FILE = "job.json"
ASSEMBLED = "assembled.h5"


def part_path(output: Path, part: int) -> Path:
    """The name of one part of `output`, which it gets when it is whole."""
    return partial_folder(output) / f"part-{part:05d}.h5"


@contextmanager
def _named_when_whole(output: Path, unfinished: str, final: Path) -> Iterator[Path]:
    """A name in the folder of parts to write to; it becomes `final` when the body ends well, and goes otherwise.

    Raises: BioattnError when the disk is full or the folder is not writable.
    """
    path = partial_folder(output) / unfinished
    try:
        with write_errors(output, path.parent):
            yield path
            require_unchanged_inputs(output)
            path.replace(final)
    finally:
        path.unlink(missing_ok=True)


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


READ_BYTES = 1 << 23
"""Bytes of arrays that are read at a time."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A whole part: a file of `num_samples` samples."""

    path: Path
    num_samples: int


class Parts:
    """The parts of one output, in the folder that `bioattn.store.parts.open_parts` makes."""

    def __init__(
        self,
        output: Path,
        layout: FileLayout,
        num_samples: int,
        part_samples: int,
        *,
        may_fail: bool = False,
        several: bool = True,
    ) -> None:
        """may_fail: a sample can be without a part, and does not come into the file; part_samples is 1 then.
        several: the file is put together from copies of its parts, though there may be but one; else the single
        part becomes the file."""
        self.output = output
        self.layout = layout
        self.num_samples = num_samples
        self.part_samples = part_samples
        self._may_fail = may_fail
        self._several = several

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
        return part_path(self.output, part).is_file()

    def num_done(self) -> int:
        """Samples in parts that are whole."""
        return sum(part.num_samples for part in self._whole())

    def bytes_on_disk(self) -> int:
        return sum(part.path.stat().st_size for part in self._whole())

    @contextmanager
    def part_writer(self, part: int) -> Iterator[ResultWriter]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        final = part_path(self.output, part)
        with (
            _named_when_whole(self.output, f"unfinished-{final.name}", final) as path,
            result_writer(path, self.layout, len(self.samples_of(part)), chunked=False) as writer,
        ):
            yield writer

    def assemble(
        self, *, on_block: Callable[[Block], None] | None = None, progress: Progress = SILENT
    ) -> list[str]:
        """Make the output from the parts, replacing an older one; returns the names of its samples.

        on_block: sees what goes into it, in order.

        Raises: BioattnError when the disk is full, or all samples failed (a shard may be empty); FormatError when
        a part is damaged (it is removed, so that resuming makes it again).
        """
        whole = self._whole()
        if not whole and self._may_fail and self.layout.shard is None:
            raise BioattnError(
                f"{self.output}: none of the {self.layout.inputs} gave results, so nothing was written"
            )
        if not self._several:
            with self._removing_damaged(whole[0].path), open_hdf5(whole[0].path, sealed=True) as file:
                ids = [str(name) for name in file["samples/id"].asstr()[:]]
            with write_errors(self.output, whole[0].path.parent):
                whole[0].path.replace(self.output)
            return ids
        ids = []

        def note(block: Block) -> None:
            ids.extend(block.samples.ids)
            if on_block is not None:
                on_block(block)

        with _named_when_whole(self.output, ASSEMBLED, self.output) as assembled:
            write_whole(
                assembled,
                self.layout,
                whole,
                lambda part: self._removing_damaged(part.path),
                on_block=note,
                progress=progress,
            )
        return ids

    def _whole(self) -> list[PartFile]:
        return [
            PartFile(part_path(self.output, part), len(self.samples_of(part)))
            for part in range(self.num_parts)
            if self.is_whole(part)
        ]

    @contextmanager
    def _removing_damaged(self, path: Path) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            path.unlink(missing_ok=True)
            raise FormatError(
                f"{error}; the damaged part was removed, run again with --resume to make it again"
            ) from error


def write_whole(
    path: Path,
    layout: FileLayout,
    parts: Sequence[PartFile],
    guard: Callable[[PartFile], AbstractContextManager[None]],
    *,
    on_block: Callable[[Block], None] | None = None,
    progress: Progress = SILENT,
) -> None:
    """Make the finished file at `path` from all its samples; its bytes do not follow from how parts are cut.

    guard: entered while a part is read. Raises: OSError when it cannot be written; FormatError for a damaged part.
    """
    number = sum(part.num_samples for part in parts)
    progress.begin("assembling", number)
    try:
        with result_writer(path, layout, number) as writer:
            for part in parts:
                for piece in _pieces(part, layout, guard):
                    if isinstance(piece, Slab):
                        writer.put(piece)
                        continue
                    writer.append(piece)
                    progress.advance(len(piece.samples))
                    if on_block is not None:
                        on_block(piece)
    finally:
        progress.end()


def _pieces(
    part: PartFile, layout: FileLayout, guard: Callable[[PartFile], AbstractContextManager[None]]
) -> Iterator[Block | Slab]:
    """All that a part holds. A generator, so that an error of the file that is written never passes for damage of
    the part."""
    per_sample = sum(group.bytes_of_sample() for group in layout.groups if not group.per_sample)
    step = 1 if layout.one_by_one else max(1, READ_BYTES // max(1, per_sample))
    with guard(part), open_hdf5(part.path, sealed=True) as file:
        if len(file["samples/id"]) != part.num_samples:
            raise FormatError(
                f"{part.path}: holds {len(file['samples/id']):,} samples, not {part.num_samples:,}"
            )
        for first in range(0, part.num_samples, step):
            rows = slice(first, min(first + step, part.num_samples))
            yield read_block(file, layout, rows)
            if layout.one_by_one:
                yield from sample_slabs(file, layout, first)
