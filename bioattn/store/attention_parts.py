"""Writing a promoter attention file so that it survives being killed (`bioattn.store.sample_parts`)."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.store.attention_writer import (
    AttentionHeader,
    AttentionWriter,
    attention_values,
    attention_writer,
)
from bioattn.store.sample_parts import (
    FIXED_BYTES,
    OVERHEAD_BYTES_PER_SAMPLE,
    SLAB_BYTES,
    SampleParts,
    join_samples,
    read_samples,
)
from bioattn.store.sample_writer import Values
from bioattn.store.schema import PREDICTIONS, Samples, SiteLayout


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


class PartStore(SampleParts[AttentionWriter, Block]):
    """The parts of one attention file."""

    def __init__(
        self,
        output: Path,
        header: AttentionHeader,
        layouts: Sequence[SiteLayout],
        treatments: Sequence[str],
        num_samples: int,
        part_samples: int,
    ) -> None:
        super().__init__(output, num_samples, part_samples)
        self.header = header
        self.layouts = tuple(layouts)
        self.treatments = tuple(treatments)

    def _writer(
        self, path: Path, num_samples: int, *, chunked: bool
    ) -> AbstractContextManager[AttentionWriter]:
        return attention_writer(
            path, self.header, self.layouts, self.treatments, num_samples, chunked=chunked
        )

    def _append(self, writer: AttentionWriter, block: Block) -> int:
        writer.append(block.samples, block.arrays, block.predictions)
        return len(block.samples.ids)

    def _samples_at_once(self) -> int:
        if not self.layouts:
            return SLAB_BYTES
        widest = max(self.layouts, key=lambda layout: layout.bytes_per_sample)
        # Whole chunks: one that is written in two goes is read again in between.
        chunk = widest.chunk(self.num_samples)[0]
        return chunk * max(1, SLAB_BYTES // max(1, chunk * widest.bytes_per_sample))

    def read(self, file: h5py.File, rows: slice) -> Block:
        """Some samples of a file of these sites."""
        return Block(
            read_samples(file, rows),
            {
                layout.name: {
                    quantity: file[f"sites/{layout.name}/{quantity}"][rows] for quantity in layout.quantities
                }
                for layout in self.layouts
            },
            file[f"{PREDICTIONS}/values"][rows],
        )

    def join(self, blocks: Sequence[Block]) -> Block:
        """One block of the samples of several."""
        if len(blocks) == 1:
            return blocks[0]
        return Block(
            join_samples([block.samples for block in blocks]),
            {
                layout.name: {
                    quantity: np.concatenate([block.arrays[layout.name][quantity] for block in blocks])
                    for quantity in layout.quantities
                }
                for layout in self.layouts
            },
            np.concatenate([block.predictions for block in blocks]),
        )

    def values(self, block: Block) -> Iterator[tuple[str, Values]]:
        """What goes into each dataset, by its path."""
        return attention_values(self.layouts, block.samples, block.arrays, block.predictions)
