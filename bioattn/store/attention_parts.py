"""Writing a promoter attention file so that it survives being killed: parts first, assembled at the end.

Each part is a complete attention file over some consecutive samples (`bioattn.store.part_folder`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.progress import NoProgress, Progress
from bioattn.store.attention_writer import AttentionHeader, AttentionWriter, attention_writer
from bioattn.store.hdf5_access import open_hdf5, strings
from bioattn.store.part_folder import assembled_output, part_output, part_path
from bioattn.store.schema import PREDICTIONS, Samples, SiteLayout

SLAB_BYTES = 1 << 24
"""Bytes of one array moved at a time while assembling."""
OVERHEAD_BYTES_PER_SAMPLE = 100
"""Names and places of a sample in the samples, predictions and one site group, generously."""
FIXED_BYTES = 1 << 15
"""Headers and indexes of a small file."""


class Block(NamedTuple):
    """Consecutive samples read back from a part."""

    samples: Samples
    arrays: dict[str, dict[str, NDArray[np.floating]]]
    predictions: NDArray[np.float32]


def attention_bytes(layouts: Sequence[SiteLayout], num_samples: int, num_treatments: int) -> int:
    """Bytes of the finished file, to a few percent: arrays (whole chunks), predictions and sample names."""
    arrays = sum(layout.stored_bytes(num_samples) for layout in layouts)
    names = (len(layouts) + 1) * OVERHEAD_BYTES_PER_SAMPLE
    return arrays + num_samples * (4 * num_treatments + names) + FIXED_BYTES


class PartStore:
    """The parts of one output, in the folder that `bioattn.store.part_folder.open_parts` makes."""

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
        return part_path(self.output, part).is_file()

    def bytes_on_disk(self) -> int:
        """Bytes of the parts that are whole."""
        return sum(
            part_path(self.output, part).stat().st_size
            for part in range(self.num_parts)
            if self.is_whole(part)
        )

    @contextmanager
    def part_writer(self, part: int) -> Iterator[AttentionWriter]:
        """Write one part; it gets its name only when the body ends well.

        Raises: BioattnError when the disk is full or the folder is not writable.
        """
        with (
            part_output(self.output, part) as path,
            attention_writer(
                path, self.header, self.layouts, self.treatments, len(self.samples_of(part)), chunked=False
            ) as writer,
        ):
            yield writer

    def assemble(
        self, *, on_block: Callable[[Block], None] | None = None, progress: Progress | None = None
    ) -> None:
        """Make the output from the parts, replacing an older one; `on_block` sees what goes into it, in order.

        Raises: BioattnError when the disk is full; FormatError when a part is damaged (the part is removed, so
        that resuming makes it again).
        """
        progress = progress or NoProgress()
        progress.begin("assembling", self.num_samples)
        try:
            with (
                assembled_output(self.output) as assembled,
                attention_writer(
                    assembled, self.header, self.layouts, self.treatments, self.num_samples
                ) as writer,
            ):
                for block in self.blocks():
                    writer.append(block.samples, block.arrays, block.predictions)
                    if on_block is not None:
                        on_block(block)
                    progress.advance(len(block.samples.ids))
        finally:
            progress.end()

    def blocks(self) -> Iterator[Block]:
        """What all parts hold, in order, a few megabytes at a time."""
        widest = max((layout.bytes_per_sample for layout in self.layouts), default=1)
        step = max(1, SLAB_BYTES // max(1, widest))
        for part in range(self.num_parts):
            path = part_path(self.output, part)
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
