"""What HDF5 files over promoters share as they are written, block by block: samples, predictions, digests."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.hdf5_datasets import attach_scale, text_array, write_scale
from bioattn.store.schema import DIGEST, PREDICTIONS, SAMPLE_FIELDS, Digest, Samples
from bioattn.store.shard_record import ShardRecord

Values: TypeAlias = NDArray[Any] | list[str]
"""What goes into one dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultHeader:
    """What a file says about where it comes from."""

    model_sha256: str
    """Of the model's weights file."""
    input_sha256: str
    """Of the sequence file the model was run on."""
    window_length: int
    """Positions of the model's window; shorter samples lie at its right end."""
    task: str
    """`regression` or `binary`: the unit of `/predictions/values`."""
    downstream: int | None = None
    """Positions of the window from position 0 of each gene on; None when the sequence file does not say."""
    shard: ShardRecord | None = None
    """Which part of which whole the file is; None for a whole."""


class SampleWriter:
    """A new file of some samples that are appended in blocks: the base of the writers of each format."""

    def __init__(
        self,
        file: h5py.File,
        header: ResultHeader,
        treatments: Sequence[str],
        num_samples: int,
        *,
        format_name: str,
        format_version: str,
        chunked: bool,
        check: Callable[[], None],
    ) -> None:
        """chunked: False stores arrays in one piece, without checksums. check: raises when a write has failed."""
        self._file = file
        self._check = check
        self._num_samples = num_samples
        self._written = 0
        self._chunked = chunked
        self._digests: dict[str, Digest] = {}
        file.attrs["format"] = format_name
        file.attrs["format_version"] = format_version
        file.attrs["generated_by"] = f"bioattn {__version__}"
        file.attrs["model_sha256"] = header.model_sha256
        file.attrs["input_sha256"] = header.input_sha256
        file.attrs["window_length"] = np.int64(header.window_length)
        file.attrs["task"] = header.task
        if header.downstream is not None:
            file.attrs["downstream"] = np.int64(header.downstream)
        if header.shard is not None:
            header.shard.write(file)
        self._create_samples()
        self._create_predictions(treatments)

    def finish(self) -> None:
        """Write the digests. Raises: RuntimeError when samples are missing (a bug of the caller)."""
        if self._written != self._num_samples:
            raise RuntimeError(f"{self._written} of {self._num_samples} samples were written")
        for where, digest in self._digests.items():
            self._file[where].attrs[DIGEST] = digest.hexdigest()
        self._file.attrs[CONTENT_DIGEST] = content_digest(self._file)

    def _append_values(self, number: int, values: Iterable[tuple[str, Values]]) -> None:
        """Write the next `number` samples: what each dataset, by its path, gets of them."""
        rows = slice(self._written, self._written + number)
        for where, array in values:
            self._put(where, rows, array)
        self._written = rows.stop
        self._check()

    def _create_samples(self) -> None:
        group = self._file.create_group("samples")
        scale = self._stream(group, "id", "sample id")
        for name in SAMPLE_FIELDS[1:]:
            kind = np.dtype(np.int64) if name in ("start", "end") else None
            dataset = self._stream(group, name, None, kind)
            attach_scale(dataset, 0, "id", scale)
        group["start"].attrs["comment"] = "0-based first base of the window along the chromosome; -1 unknown"
        group["end"].attrs["comment"] = "base after the last one of the window; -1 unknown"

    def _create_predictions(self, treatments: Sequence[str]) -> None:
        group = self._file.create_group(PREDICTIONS)
        values = self._array(
            group, "values", (self._num_samples, len(treatments)), np.dtype(np.float32), None
        )
        attach_scale(values, 0, "sample", self._stream(group, "sample", "gene id"))
        attach_scale(values, 1, "treatment", write_scale(group, "treatment", list(treatments)))

    def _stream(
        self,
        group: h5py.Group,
        name: str,
        long_name: str | None,
        kind: np.dtype[Any] | None = None,
    ) -> h5py.Dataset:
        """A one-dimensional dataset over samples, filled block by block; text without `kind`."""
        dataset = group.create_dataset(name, shape=(self._num_samples,), dtype=kind or h5py.string_dtype())
        if long_name is not None:
            dataset.attrs["long_name"] = long_name
            dataset.make_scale(name)
        self._digests[dataset.name] = Digest()
        return dataset

    def _array(
        self,
        group: h5py.Group,
        name: str,
        shape: tuple[int, ...],
        kind: np.dtype[Any],
        chunk: tuple[int, ...] | None,
    ) -> h5py.Dataset:
        """A floating-point dataset; chunked ones carry a checksum that every reader verifies as it reads."""
        chunked = chunk is not None and self._chunked and self._num_samples > 0
        options = {"chunks": chunk, "fletcher32": True} if chunked else {}
        dataset = group.create_dataset(name, shape=shape, dtype=kind, **options)
        self._digests[dataset.name] = Digest()
        return dataset

    def _put(self, where: str, rows: slice, values: Values) -> None:
        self._file[where][rows] = text_array(values) if isinstance(values, list) else values
        self._digests[where].add(values)


def sample_values(samples: Samples, predictions: NDArray[np.float32]) -> Iterator[tuple[str, Values]]:
    """What the datasets that all formats share get of some samples, by their paths, in the order of writing."""
    places: tuple[Values, ...] = samples
    for name, values in zip(SAMPLE_FIELDS, places, strict=True):
        yield f"/samples/{name}", values
    yield f"/{PREDICTIONS}/values", predictions
    yield f"/{PREDICTIONS}/sample", samples.ids
