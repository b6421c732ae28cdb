"""Writing a file over promoters so that it survives being killed: parts first, assembled at the end.

Each part is a complete file over some consecutive samples (`bioattn.store.part_folder`). What is in it is the
business of the format: `attention_parts`, `attribution_parts`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Generic, TypeVar

import h5py
import numpy as np

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import open_hdf5, strings
from bioattn.store.part_folder import assembled_output, part_output, part_path
from bioattn.store.sample_writer import Values
from bioattn.store.schema import Samples
from bioattn.system.progress import NoProgress, Progress

SLAB_BYTES = 1 << 21
"""Bytes of one array moved at a time while assembling, unless whole chunks take more."""
OVERHEAD_BYTES_PER_SAMPLE = 100
"""Names and places of a sample in the samples, predictions and one group, generously."""
FIXED_BYTES = 1 << 15
"""Headers and indexes of a small file."""

Writer = TypeVar("Writer")
Block = TypeVar("Block")


class SampleParts(ABC, Generic[Writer, Block]):
    """The parts of one output, in the folder that `bioattn.store.part_folder.open_parts` makes."""

    def __init__(self, output: Path, num_samples: int, part_samples: int) -> None:
        self.output = output
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
        return part_path(self.output, part).is_file()

    def num_done(self) -> int:
        """Samples in parts that are whole."""
        return sum(len(self.samples_of(part)) for part in range(self.num_parts) if self.is_whole(part))

    def bytes_on_disk(self) -> int:
        """Bytes of the parts that are whole."""
        return sum(
            part_path(self.output, part).stat().st_size
            for part in range(self.num_parts)
            if self.is_whole(part)
        )

    @contextmanager
    def part_writer(self, part: int) -> Iterator[Writer]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        with (
            part_output(self.output, part) as path,
            self._writer(path, len(self.samples_of(part)), chunked=False) as writer,
        ):
            yield writer

    def assemble(
        self, *, on_block: Callable[[Block], None] | None = None, progress: Progress | None = None
    ) -> None:
        """Make the output from the parts, replacing an older one; `on_block` sees what goes into it, in order.

        Raises: BioattnError when the disk is full; FormatError when a part is damaged (the part is removed, so
        that resuming makes it again).
        """
        with assembled_output(self.output) as assembled:
            self.write_whole(assembled, self.blocks(), on_block=on_block, progress=progress)

    def write_whole(
        self,
        path: Path,
        blocks: Iterable[Block],
        *,
        on_block: Callable[[Block], None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make the finished file at `path` from all its samples; its bytes follow from where blocks end, too.

        blocks: of the samples that `block_rows` says. Raises: OSError when it cannot be written.
        """
        progress = progress or NoProgress()
        progress.begin("assembling", self.num_samples)
        try:
            with self._writer(path, self.num_samples, chunked=True) as writer:
                for block in blocks:
                    progress.advance(self._append(writer, block))
                    if on_block is not None:
                        on_block(block)
        finally:
            progress.end()

    def block_rows(self) -> Iterator[range]:
        """The samples (0-based, file order) that are moved at a time: a few megabytes, never of two parts.

        Where a part begins within a chunk, its first block ends with that chunk, and so do all others with theirs.
        """
        step = self._samples_at_once()
        for part in range(self.num_parts):
            samples = self.samples_of(part)
            first = samples.start
            while first < samples.stop:
                stop = min(first - first % step + step, samples.stop)
                yield range(first, stop)
                first = stop

    def blocks(self) -> Iterator[Block]:
        """What all parts hold, in order, a few megabytes at a time."""
        for part, blocks in groupby(self.block_rows(), key=lambda rows: rows.start // self.part_samples):
            path, first = part_path(self.output, part), part * self.part_samples
            try:
                with open_hdf5(path) as file:
                    for rows in blocks:
                        yield self.read(file, slice(rows.start - first, rows.stop - first))
            except FormatError as error:
                path.unlink(missing_ok=True)
                raise FormatError(
                    f"{error}; the damaged part was removed, run again with --resume to make it again"
                ) from error

    @abstractmethod
    def read(self, file: h5py.File, rows: slice) -> Block:
        """Some samples of a file of this format."""

    @abstractmethod
    def join(self, blocks: Sequence[Block]) -> Block:
        """One block of the samples of several, at least one."""

    @abstractmethod
    def values(self, block: Block) -> Iterable[tuple[str, Values]]:
        """What goes into each dataset, by its path."""

    @abstractmethod
    def _writer(self, path: Path, num_samples: int, *, chunked: bool) -> AbstractContextManager[Writer]:
        """A writer of a file of `num_samples`; `chunked` in the finished file, not in parts."""

    @abstractmethod
    def _append(self, writer: Writer, block: Block) -> int:
        """Hand a block to the writer; gives its samples."""

    @abstractmethod
    def _samples_at_once(self) -> int:
        """Samples of a block while assembling: about `SLAB_BYTES` of the largest array."""


def read_samples(file: h5py.File, rows: slice) -> Samples:
    """Names and places of some samples."""
    samples = file["samples"]
    return Samples(
        strings(samples["id"], rows),
        strings(samples["chrom"], rows),
        samples["start"][rows],
        samples["end"][rows],
        strings(samples["strand"], rows),
    )


def join_samples(blocks: Sequence[Samples]) -> Samples:
    """Names and places of the samples of several blocks."""
    return Samples(
        [name for samples in blocks for name in samples.ids],
        [name for samples in blocks for name in samples.chrom],
        np.concatenate([samples.start for samples in blocks]),
        np.concatenate([samples.end for samples in blocks]),
        [name for samples in blocks for name in samples.strand],
    )
