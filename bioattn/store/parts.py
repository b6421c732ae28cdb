"""Writing a file of results so that it survives being killed: parts first, assembled at the end.

Each part is a complete file over some consecutive samples (`bioattn.store.part_folder`). The parts of a sharded
run are put together in the same way (`bioattn.store.merging`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.io.hdf5_input import open_hdf5
from bioattn.store.part_folder import assembled_output, part_output, part_path, write_errors
from bioattn.store.schema import Block, FileLayout, Slab
from bioattn.store.stored import read_block, sample_slabs
from bioattn.store.writer import ResultWriter, result_writer
from bioattn.system.progress import NoProgress, Progress

READ_BYTES = 1 << 23
"""Bytes of arrays that are read at a time."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A whole part: a file of `num_samples` samples."""

    path: Path
    num_samples: int


class Parts:
    """The parts of one output, in the folder that `bioattn.store.part_folder.open_parts` makes."""

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
        """Bytes of the parts that are whole."""
        return sum(part.path.stat().st_size for part in self._whole())

    @contextmanager
    def part_writer(self, part: int) -> Iterator[ResultWriter]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        with (
            part_output(self.output, part) as path,
            result_writer(path, self.layout, len(self.samples_of(part)), chunked=False) as writer,
        ):
            yield writer

    def assemble(
        self, *, on_block: Callable[[Block], None] | None = None, progress: Progress | None = None
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

        with assembled_output(self.output) as assembled:
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
    progress: Progress | None = None,
) -> None:
    """Make the finished file at `path` from all its samples; its bytes do not follow from how parts are cut.

    guard: entered while a part is read. Raises: OSError when it cannot be written; FormatError for a damaged part.
    """
    progress = progress or NoProgress()
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
