"""Putting parts of files over promoters together, block by block, each value compared with its digest."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import h5py

from bioattn.errors import FormatError
from bioattn.io.files import atomic_output
from bioattn.io.hdf5_input import open_hdf5, strings, text_attribute
from bioattn.store.attention_checks import digest_of
from bioattn.store.attention_parts import PartStore, attention_bytes
from bioattn.store.attention_reader import AttentionFile, SiteInfo
from bioattn.store.attribution_reader import AttributionFile
from bioattn.store.attribution_schema import AttributionLayout
from bioattn.store.attribution_writer import AttributionParts
from bioattn.store.choices import Method, Reduction, WeightType
from bioattn.store.merging.part import Part
from bioattn.store.part_folder import require_free_space
from bioattn.store.sample_parts import SampleParts
from bioattn.store.sample_writer import ResultHeader
from bioattn.store.schema import DIGEST, FORMAT, Digest, SiteLayout
from bioattn.system.progress import Progress
from bioattn.text import human_bytes

Store: TypeAlias = SampleParts[Any, Any]


def merge_promoter_files(
    parts: Sequence[Part], output: Path, progress: Progress, check: Callable[[], None]
) -> None:
    """Make `output` of the parts, all there and in order; check: called between blocks, may raise.

    Raises: FormatError naming a part that is damaged; BioattnError when the disk is full.
    """
    store, size = _store(parts[0], output)
    require_free_space(output, size, human_bytes(size), "make room, or choose another disk")
    with atomic_output(output) as temporary:
        store.write_whole(temporary, _blocks(store, parts), on_block=lambda _: check(), progress=progress)


def _blocks(store: Store, parts: Sequence[Part]) -> Iterator[Any]:
    """The blocks that the run by one process writes, wherever the parts end."""
    for _, pieces in groupby(_pieces(store, parts), key=lambda piece: piece[0]):
        yield store.join([block for _, block in pieces])


def _pieces(store: Store, parts: Sequence[Part]) -> Iterator[tuple[int, Any]]:
    """What each part holds of each block, and where that block begins."""
    all_rows = store.block_rows()
    rows = next(all_rows, None)
    for part in parts:
        first, stop = part.record.first, part.record.stop
        with open_hdf5(part.path) as file:
            reader = _Reader(store, part, file)
            while rows is not None and rows.start < stop:
                start, end = max(rows.start, first), min(rows.stop, stop)
                if start < end:
                    yield rows.start, reader.read(slice(start - first, end - first))
                if rows.stop > stop:
                    break
                rows = next(all_rows, None)
            reader.require_digests()


class _Reader:
    """An open part whose samples are read once, in order, and compared with their digests at the end."""

    def __init__(self, store: Store, part: Part, file: h5py.File) -> None:
        self._store, self._part, self._file = store, part, file
        # What runs over the samples is read block by block, and is named by the block of none of them.
        self._digests = {where: Digest() for where, _ in store.values(store.read(file, slice(0, 0)))}
        for dataset in _datasets(file):
            if dataset.name not in self._digests:
                text = h5py.check_string_dtype(dataset.dtype) is not None
                for finding in digest_of(dataset, strings(dataset) if text else dataset[()]):
                    raise self._damaged(finding.where)
        like, _ = _store(part, store.output, file)
        if not _same_shapes(store, like):
            raise FormatError(
                f"{part.path}: its arrays are not of the shapes of the other parts; make it again"
            )
        number, wanted = len(file["samples/id"]), part.record.stop - part.record.first
        if number != wanted:
            raise FormatError(f"{part.path}: holds {number:,} promoters for {wanted:,} inputs; make it again")

    def read(self, rows: slice) -> Any:
        """The next samples."""
        block = self._store.read(self._file, rows)
        for where, values in self._store.values(block):
            self._digests[where].add(values)
        return block

    def require_digests(self) -> None:
        """Raises: FormatError when what was read is not what was written."""
        for where, digest in self._digests.items():
            if text_attribute(self._file[where], DIGEST) != digest.hexdigest():
                raise self._damaged(where)

    def _damaged(self, where: str) -> FormatError:
        return FormatError(
            f"{self._part.path}: {where} is not what was written ({DIGEST} differs); copy it or make it again"
        )


def _datasets(file: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return found


def _store(part: Part, output: Path, file: h5py.File | None = None) -> tuple[Store, int]:
    """What writes the whole, as a part describes it, and the size of the file."""
    if file is None:
        with open_hdf5(part.path) as opened:
            return _store(part, output, opened)
    job, total = part.record.job, part.record.total
    if (part_samples := int(job["part_samples"])) < 1:
        raise FormatError(
            f"{part.path}: says that the run has parts of {part_samples} promoters; make it again"
        )
    if text_attribute(file, "format") == FORMAT:
        attention = AttentionFile(part.path, file)
        layouts = [_layout(attention.sites[name]) for name in job["sites"]]
        treatments = attention.treatments
        return (
            PartStore(output, _header(attention), layouts, treatments, total, part_samples),
            attention_bytes(layouts, total, len(treatments)),
        )
    attribution = AttributionFile(part.path, file)
    layout = AttributionLayout(
        method=Method(attribution.method),
        settings=attribution.method_settings,
        num_treatments=len(attribution.treatments),
        window_length=attribution.window_length,
    )
    return (
        AttributionParts(output, _header(attribution), layout, attribution.treatments, total, part_samples),
        layout.stored_bytes(total),
    )


def _same_shapes(one: Store, other: Store) -> bool:
    if isinstance(one, PartStore) and isinstance(other, PartStore):
        return (one.header, one.layouts, one.treatments) == (other.header, other.layouts, other.treatments)
    if isinstance(one, AttributionParts) and isinstance(other, AttributionParts):
        return (one.header, one.layout, one.treatments) == (other.header, other.layout, other.treatments)
    return False


def _header(file: AttentionFile | AttributionFile) -> ResultHeader:
    return ResultHeader(
        model_sha256=file.model_sha256,
        input_sha256=file.input_sha256,
        window_length=file.window_length,
        task=file.task,
        downstream=file.downstream,
    )


def _layout(site: SiteInfo) -> SiteLayout:
    key_edges, query_edges = (
        None if edges is None else tuple(edges.tolist()) for edges in (site.key_edges, site.query_edges)
    )
    return SiteLayout(
        name=site.name,
        dims=site.dims,
        sizes=tuple(int(size) for size in site.shape[1:]),
        heads=site.heads,
        reduce=Reduction(site.reduce),
        dtype=WeightType(str(site.dtype)),
        value_weighted=site.has_value_weighted,
        key_edges=key_edges,
        query_edges=query_edges,
        receptive_field=site.receptive_field,
        sink=site.sink,
        phases=site.phases,
    )
