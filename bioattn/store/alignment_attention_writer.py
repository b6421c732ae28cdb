"""Writing an attention file over alignments: arrays of a site go in slice by slice, whatever their size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.io.seal import structure_sealed
from bioattn.store.alignment_schema import (
    ALIGNMENTS,
    COLUMNS,
    EXTRA_ROW_NAMES,
    INPUTS,
    KEY_INDEX,
    ROW_NAMES,
    AlignmentReduction,
    AlignmentSample,
    AlignmentSiteLayout,
    coordinate,
    sample_group,
)
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.hdf5_datasets import attach_scale, write_digested, write_scale
from bioattn.store.run_settings import SETTINGS
from bioattn.store.schema import DIGEST, FORMAT, FORMAT_VERSION, WEIGHTS, Digest
from bioattn.store.shard_record import ShardRecord

RowNames = Callable[[int, bool], tuple[str, ...] | None]
"""Number of a sample, whether of its extra MSA → names of the rows; None = not known."""

LONG_NAMES = {
    AlignmentReduction.NONE: "attention weight",
    AlignmentReduction.MEAN_ROWS: "attention weight, mean over rows",
    AlignmentReduction.MAX_ROWS: "attention weight, maximum over rows",
    AlignmentReduction.TOP_K: "largest attention weights of each query",
    AlignmentReduction.MEAN_HEADS: "attention weight, mean over heads",
    AlignmentReduction.MAX_HEADS: "attention weight, maximum over heads",
}


class SiteStream:
    """The arrays of one site of one alignment, filled in C order."""

    def __init__(
        self,
        group: h5py.Group,
        layout: AlignmentSiteLayout,
        sample: AlignmentSample,
        check: Callable[[], None],
    ) -> None:
        self._check = check
        self._next = 0
        self._length = layout.sizes[0]
        scales = {dim: write_scale(group, dim, coordinate(layout, dim, sample)) for dim in layout.dims}
        self._datasets = {}
        for quantity, kind in layout.quantities.items():
            dataset = group.create_dataset(
                quantity, shape=layout.sizes, dtype=kind, chunks=layout.chunk(kind.itemsize), fletcher32=True
            )
            for axis, dim in enumerate(layout.dims):
                attach_scale(dataset, axis, dim, scales[dim])
            self._datasets[quantity] = dataset
        self._datasets[WEIGHTS].attrs["long_name"] = LONG_NAMES[layout.reduce]
        if KEY_INDEX in self._datasets:
            self._datasets[KEY_INDEX].attrs["long_name"] = f"{layout.keys} that the weight is of, from 0"
        self._digests = {quantity: Digest() for quantity in self._datasets}

    def write(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Write the next slices along the first axis, all quantities alike."""
        number = len(arrays[WEIGHTS])
        # Where chunks lie in the file follows from the order of writing: several quantities take turns slice by
        # slice, so that it does not follow from the size of tiles.
        step = number if len(arrays) == 1 else 1
        for first in range(0, number, step):
            for quantity, dataset in self._datasets.items():
                part = arrays[quantity][first : first + step]
                dataset[self._next : self._next + len(part)] = part
                self._digests[quantity].add(part)
            self._next += min(step, number - first)
        self._check()
        if self.complete:
            self._seal()

    @property
    def complete(self) -> bool:
        """Whether all slices were written."""
        return self._next == self._length

    def copy(self, quantity: str, index: tuple[int | slice, ...], values: NDArray[np.generic]) -> None:
        """Write the values at the next index (in C order) of one quantity."""
        self._datasets[quantity][index] = values
        self._digests[quantity].add(values)
        self._check()

    def finish_copy(self) -> dict[str, str]:
        """Write the digests; returns them by quantity."""
        self._seal()
        return {quantity: digest.hexdigest() for quantity, digest in self._digests.items()}

    def _seal(self) -> None:
        for quantity, dataset in self._datasets.items():
            dataset.attrs[DIGEST] = self._digests[quantity].hexdigest()


class AlignmentAttentionFile:
    """A new attention file over alignments; made by `alignment_attention_file`."""

    def __init__(
        self,
        file: h5py.File,
        model_sha256: str,
        samples: Sequence[AlignmentSample],
        check: Callable[[], None],
        shard: ShardRecord | None = None,
        names: RowNames | None = None,
        settings_sha256: str | None = None,
    ) -> None:
        self._file = file
        self._check = check
        self._samples = tuple(samples)
        self._names = names or self._names_of_sample
        file.attrs["format"] = FORMAT
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs[INPUTS] = ALIGNMENTS
        file.attrs["generated_by"] = f"bioattn {__version__}"
        file.attrs["model_sha256"] = model_sha256
        if settings_sha256 is not None:
            file.attrs[SETTINGS] = settings_sha256
        if shard is not None:
            shard.write(file)
        self._write_samples()
        file.create_group("sites")

    def site(self, layout: AlignmentSiteLayout, number: int) -> SiteStream:
        """Begin the arrays of one site of the sample with this number in `/samples`."""
        sites = self._file["sites"]
        if layout.name not in sites:
            group = sites.create_group(layout.name)
            group.attrs["reduce"] = str(layout.reduce)
            group.attrs["heads"] = np.asarray(layout.heads, dtype=np.int32)
            group.attrs["keys"] = layout.keys
            group.attrs["extra_rows"] = np.int8(layout.extra_rows)
            if layout.reduce is AlignmentReduction.TOP_K:
                group.attrs["top_k"] = np.int32(layout.top_k)
        group = sites[layout.name].create_group(sample_group(number))
        group.attrs["sample"] = self._samples[number].id
        return SiteStream(group, layout, self._samples[number], self._check)

    def finish(self) -> None:
        """Write the digest of everything."""
        self._file.attrs[CONTENT_DIGEST] = content_digest(self._file)

    def _write_samples(self) -> None:
        group = self._file.create_group("samples")
        scale = write_scale(group, "id", [sample.id for sample in self._samples])
        scale.attrs["long_name"] = "sample id"
        columns: dict[str, NDArray[np.generic] | list[str]] = {
            "length": np.array([len(sample.query) for sample in self._samples], dtype=np.int32),
            "alignment_columns": np.array(
                [sample.alignment_columns or len(sample.query) for sample in self._samples], dtype=np.int32
            ),
            "rows": np.array([sample.rows for sample in self._samples], dtype=np.int32),
            "extra_rows": np.array([sample.extra_rows for sample in self._samples], dtype=np.int32),
            "query": [sample.query for sample in self._samples],
            "input_sha256": [sample.input_sha256 for sample in self._samples],
        }
        for name, values in columns.items():
            attach_scale(write_digested(group, name, values), 0, "id", scale)
        columns_group = group.create_group(COLUMNS)
        for number, sample in enumerate(self._samples):
            write_digested(columns_group, sample_group(number), sample.seen_columns)
        for name in (ROW_NAMES, EXTRA_ROW_NAMES):
            names_group = group.create_group(name)
            for number in range(len(self._samples)):
                names = self._names(number, name == EXTRA_ROW_NAMES)
                if names is not None:
                    write_digested(names_group, sample_group(number), list(names))
                    self._check()
        group["length"].attrs["comment"] = "match columns that the model saw"
        group["alignment_columns"].attrs["comment"] = "match columns of the alignment"
        group["rows"].attrs["comment"] = "rows of the clustered MSA that the model saw"
        group["extra_rows"].attrs["comment"] = "rows of the extra MSA that the model saw"

    def _names_of_sample(self, number: int, extra: bool) -> tuple[str, ...] | None:
        sample = self._samples[number]
        return sample.extra_row_names if extra else sample.row_names


@contextmanager
def alignment_attention_file(
    path: Path,
    model_sha256: str,
    samples: Sequence[AlignmentSample],
    shard: ShardRecord | None = None,
    names: RowNames | None = None,
    settings_sha256: str | None = None,
) -> Iterator[AlignmentAttentionFile]:
    """Create `path`; the file is complete only when the body ends without an exception.

    shard: which part of which whole the file is; None for a whole. names: gives the names of rows, which of
    thousands of samples take much room; None = the samples have them. settings_sha256: as
    `bioattn.store.run_settings` makes it; None where no run made the file.

    Raises: OSError when it cannot be written.
    """
    with structure_sealed(path, chunk_cache_bytes=0) as (file, raw):
        made = AlignmentAttentionFile(file, model_sha256, samples, raw.check, shard, names, settings_sha256)
        yield made
        made.finish()
