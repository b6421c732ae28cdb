"""Writing one attribution HDF5 file, samples in order, a block at a time; and its parts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.io.seal import structure_sealed
from bioattn.store.attribution_schema import (
    ATTRIBUTION,
    ATTRIBUTION_FORMAT,
    ATTRIBUTION_VERSION,
    BASES,
    GAP,
    SEQUENCE,
    VALUE_DIMS,
    VALUES,
    AttributionLayout,
)
from bioattn.store.hdf5_datasets import attach_scale, write_scale
from bioattn.store.sample_parts import SLAB_BYTES, SampleParts, join_samples, read_samples
from bioattn.store.sample_writer import ResultHeader, SampleWriter, Values, sample_values
from bioattn.store.schema import PREDICTIONS, Samples


class AttributionBlock(NamedTuple):
    """Some consecutive samples."""

    samples: Samples
    sequence: NDArray[np.uint8]
    """Codes (n, window_length)."""
    values: NDArray[np.float32]
    """(n, treatments, window_length, 4)."""
    gap: NDArray[np.float32] | None
    """(n, treatments); None where the method promises no sum."""
    predictions: NDArray[np.float32]
    """(n, treatments), as in attention files: responses, or probabilities of a binary model."""


class AttributionWriter(SampleWriter):
    """Appends blocks of samples to a new file; use `attribution_writer`, which checks that it was filled."""

    def __init__(
        self,
        file: h5py.File,
        header: ResultHeader,
        layout: AttributionLayout,
        treatments: Sequence[str],
        num_samples: int,
        *,
        chunked: bool,
        check: Callable[[], None],
    ) -> None:
        super().__init__(
            file,
            header,
            treatments,
            num_samples,
            format_name=ATTRIBUTION_FORMAT,
            format_version=ATTRIBUTION_VERSION,
            chunked=chunked,
            check=check,
        )
        file.attrs["method"] = str(layout.method)
        file.attrs["method_settings"] = layout.settings
        group = file.create_group(ATTRIBUTION)
        scales = {
            "sample": self._stream(group, "sample", "gene id"),
            "treatment": write_scale(group, "treatment", list(treatments)),
            "position": write_scale(group, "position", np.arange(layout.window_length, dtype=np.int32)),
            "base": write_scale(group, "base", list(BASES)),
        }
        group["position"].attrs["units"] = "bases from the first base of the window, 5'->3'"
        shapes = {
            VALUES: (VALUE_DIMS, np.float32, layout.chunk(num_samples)),
            SEQUENCE: (("sample", "position"), np.uint8, None),
        }
        if layout.has_gap:
            shapes[GAP] = (("sample", "treatment"), np.float32, None)
        for name, (dims, kind, chunk) in shapes.items():
            shape = (num_samples, *(len(group[dim]) for dim in dims[1:]))
            dataset = self._array(group, name, shape, np.dtype(kind), chunk)
            for axis, dim in enumerate(dims):
                attach_scale(dataset, axis, dim, scales[dim])
        group[VALUES].attrs["long_name"] = "what each base would add to the prediction, mean over bases 0"
        group[SEQUENCE].attrs["long_name"] = "0 A, 1 C, 2 G, 3 T, 4 N"

    def append(self, block: AttributionBlock) -> None:
        """Write the next samples."""
        self._append_values(len(block.samples.ids), attribution_values(block))


def attribution_values(block: AttributionBlock) -> Iterator[tuple[str, Values]]:
    """What the datasets of a file get of some samples, by their paths, in the order of writing."""
    yield from sample_values(block.samples, block.predictions)
    yield f"/{ATTRIBUTION}/sample", block.samples.ids
    yield f"/{ATTRIBUTION}/{SEQUENCE}", block.sequence
    yield f"/{ATTRIBUTION}/{VALUES}", block.values
    if block.gap is not None:
        yield f"/{ATTRIBUTION}/{GAP}", block.gap


@contextmanager
def attribution_writer(
    path: Path,
    header: ResultHeader,
    layout: AttributionLayout,
    treatments: Sequence[str],
    num_samples: int,
    *,
    chunked: bool = True,
) -> Iterator[AttributionWriter]:
    """Create `path` and give its writer; the file is complete only when the body ends without an exception.

    chunked: False stores arrays in one piece, without checksums, for parts that are read back once.

    Raises: OSError when it cannot be written.
    """
    with structure_sealed(path) as (file, raw):
        writer = AttributionWriter(
            file, header, layout, treatments, num_samples, chunked=chunked, check=raw.check
        )
        yield writer
        writer.finish()


class AttributionParts(SampleParts[AttributionWriter, AttributionBlock]):
    """The parts of one attribution file."""

    def __init__(
        self,
        output: Path,
        header: ResultHeader,
        layout: AttributionLayout,
        treatments: Sequence[str],
        num_samples: int,
        part_samples: int,
    ) -> None:
        super().__init__(output, num_samples, part_samples)
        self.header = header
        self.layout = layout
        self.treatments = tuple(treatments)

    def _writer(
        self, path: Path, num_samples: int, *, chunked: bool
    ) -> AbstractContextManager[AttributionWriter]:
        return attribution_writer(
            path, self.header, self.layout, self.treatments, num_samples, chunked=chunked
        )

    def _append(self, writer: AttributionWriter, block: AttributionBlock) -> int:
        writer.append(block)
        return len(block.samples.ids)

    def _samples_at_once(self) -> int:
        # Whole chunks: one that is written in two goes is read again in between.
        chunk = self.layout.chunk(self.num_samples)[0]
        return chunk * max(1, SLAB_BYTES // (chunk * self.layout.bytes_per_sample))

    def read(self, file: h5py.File, rows: slice) -> AttributionBlock:
        """Some samples of a file."""
        group = file[ATTRIBUTION]
        return AttributionBlock(
            read_samples(file, rows),
            group[SEQUENCE][rows],
            group[VALUES][rows],
            group[GAP][rows] if self.layout.has_gap else None,
            file[f"{PREDICTIONS}/values"][rows],
        )

    def join(self, blocks: Sequence[AttributionBlock]) -> AttributionBlock:
        """One block of the samples of several."""
        if len(blocks) == 1:
            return blocks[0]
        gaps = [block.gap for block in blocks if block.gap is not None]
        return AttributionBlock(
            join_samples([block.samples for block in blocks]),
            np.concatenate([block.sequence for block in blocks]),
            np.concatenate([block.values for block in blocks]),
            np.concatenate(gaps) if gaps else None,
            np.concatenate([block.predictions for block in blocks]),
        )

    def values(self, block: AttributionBlock) -> Iterator[tuple[str, Values]]:
        """What goes into each dataset, by its path."""
        return attribution_values(block)
