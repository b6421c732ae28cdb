"""What an attention file over alignments holds: every alignment has its own size, so each has its own arrays.

Shapes: S rows of the clustered MSA, E rows of the extra MSA, R residues (match columns of the alignment).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AttentionSite
from bioattn.errors import SettingsError
from bioattn.store.choices import WeightType
from bioattn.store.schema import WEIGHTS, kept_heads

ALIGNMENTS = "alignments"
"""Value of the root attribute `inputs`; files over promoters have none."""
INPUTS = "inputs"
KEY_INDEX = "key_index"
RANK = "rank"
SAMPLE_FIELDS = ("id", "length", "alignment_columns", "rows", "extra_rows", "query", "input_sha256")
COLUMNS = "columns"
"""Group in `/samples` that holds the match columns seen, a dataset per sample."""
ROW_NAMES, EXTRA_ROW_NAMES = "row_names", "extra_row_names"
"""Groups in `/samples` that hold the names of rows, a dataset per sample where they are known."""

MAP_CHUNK_BYTES = 1 << 22
"""Largest chunk: one head's map up to 1024 × 1024 in float32 is one chunk; larger ones are cut along queries."""
SMALL_CHUNK_BYTES = 1 << 17
"""Heads share a chunk while it stays below this."""
SLAB_BYTES = 1 << 24
"""Bytes of one array moved at a time."""


class AlignmentReduction(StrEnum):
    """What is done before writing. Rows are the outer axis: those of the MSA, or residues at some sites."""

    MEAN_ROWS = "mean-rows"
    MAX_ROWS = "max-rows"
    TOP_K = "top-k"
    MEAN_HEADS = "mean-heads"
    MAX_HEADS = "max-heads"
    NONE = "none"


class AlignmentSizes(NamedTuple):
    """What decides the shapes of one alignment's weights."""

    rows: int
    """S: clustered MSA rows the model sees."""
    extra_rows: int
    """E: extra MSA rows the model sees."""
    residues: int
    """R: match columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentSample:
    """One alignment as the file names it."""

    id: str
    """Unique in the file."""
    query: str
    """The target row, one letter for each match column that the model sees (R)."""
    rows: int
    extra_rows: int
    input_sha256: str
    """Of the alignment file."""
    columns: tuple[int, ...] | None = None
    """(R,) which match columns these are, from 0, ascending; None = all of them."""
    alignment_columns: int | None = None
    """Match columns of the alignment; None = R."""
    row_names: tuple[str, ...] | None = None
    """(rows,) names of the clustered MSA's rows; None = not known."""
    extra_row_names: tuple[str, ...] | None = None
    """(extra_rows,) names of the extra MSA's rows, "" for one that stands for none."""

    @property
    def seen_columns(self) -> NDArray[np.int32]:
        """(R,) match columns that the model sees, from 0."""
        return np.array(range(len(self.query)) if self.columns is None else self.columns, dtype=np.int32)

    @property
    def sizes(self) -> AlignmentSizes:
        """What decides the shapes."""
        return AlignmentSizes(self.rows, self.extra_rows, len(self.query))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentAttentionOptions:
    """What of the attention over alignments is written."""

    sites: tuple[str, ...] = ("*",)
    """Shell patterns of site names."""
    heads: tuple[int, ...] | None = None
    """0-based heads to keep, in this order; None = all."""
    dtype: WeightType = WeightType.FLOAT32
    """float16 takes half the space but netCDF programs cannot read it."""
    reduce: AlignmentReduction = AlignmentReduction.MEAN_ROWS
    top_k: int = 16
    """Keys kept of each query with `top-k`."""

    def __post_init__(self) -> None:
        if not self.sites:
            raise SettingsError("no attention sites asked for; give a pattern such as 'evoformer.*.msa_row'")
        if self.heads is not None and (not self.heads or len(set(self.heads)) != len(self.heads)):
            raise SettingsError(f"heads {list(self.heads)}: give at least one head, each once")
        if self.top_k < 1:
            raise SettingsError(f"top-k needs at least one key, {self.top_k} were asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentSiteLayout:
    """One site of one alignment as it is stored."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    heads: tuple[int, ...]
    """The model's head numbers that were kept (or reduced over)."""
    keys: str
    """What keys and queries are: `residue` or `row`."""
    extra_rows: bool
    """Whether rows are those of the extra MSA."""
    reduce: AlignmentReduction
    """What was done at this site: `none` where it has no such axis."""
    top_k: int
    dtype: WeightType

    @property
    def quantities(self) -> dict[str, np.dtype[np.generic]]:
        """The arrays written, with their dtypes."""
        arrays: dict[str, np.dtype[np.generic]] = {WEIGHTS: np.dtype(self.dtype)}
        if self.reduce is AlignmentReduction.TOP_K:
            arrays[KEY_INDEX] = np.dtype(np.int32)
        return arrays

    def chunk(self, itemsize: int) -> tuple[int, ...]:
        """Chunk shape: one head's whole map, several heads of small ones, never two rows of the outer axis.

        So one head's map is one chunk, and whoever writes a tile of rows writes whole chunks.
        """
        chunk = [1] * len(self.dims)
        chunk[-1] = self.sizes[-1]
        for axis in range(len(self.dims) - 2, -1, -1):
            if self.dims[axis] in ("row", "residue"):
                break
            room = MAP_CHUNK_BYTES if self.dims[axis] == "query" else SMALL_CHUNK_BYTES
            chunk[axis] = max(1, min(self.sizes[axis], room // (itemsize * math.prod(chunk[axis + 1 :]))))
            if chunk[axis] < self.sizes[axis]:
                break
        return tuple(chunk)

    def stored_bytes(self) -> int:
        """Bytes of the arrays in the file: whole chunks and their entries in HDF5's index."""
        total = 0
        for kind in self.quantities.values():
            chunk = self.chunk(kind.itemsize)
            number = math.prod(-(-size // part) for size, part in zip(self.sizes, chunk, strict=True))
            total += number * (math.prod(chunk) * kind.itemsize + INDEX_BYTES_PER_CHUNK)
        return total


INDEX_BYTES_PER_CHUNK = 90
BYTES_PER_ARRAY_GROUP = 7000
"""A sample's group at one site: headers, dimension scales and their references."""
BYTES_PER_SITE = 1500
BYTES_PER_SAMPLE = 2000
BYTES_PER_NAME = 50
FIXED_BYTES = 1 << 14
"""Headers of a small file."""


def alignment_layout(
    site: AttentionSite, sizes: AlignmentSizes, options: AlignmentAttentionOptions
) -> AlignmentSiteLayout:
    """How a site's weights over an alignment of these sizes are stored under `options`.

    Raises: SettingsError when a head is asked for that the site does not have.
    """
    if site.keys is None:
        raise RuntimeError(f"site {site.name} does not say whether its keys are residues or rows")
    heads = kept_heads(site, options.heads)
    rows = sizes.extra_rows if site.extra_rows else sizes.rows
    keys = sizes.residues if site.keys == "residue" else rows
    lengths = {
        "row": rows,
        "residue": sizes.residues,
        "head": len(heads),
        "query": keys,
        "key": keys,
        RANK: min(options.top_k, keys),
    }
    dims, reduce = list(site.axes), options.reduce
    match reduce:
        case AlignmentReduction.MEAN_ROWS | AlignmentReduction.MAX_ROWS:
            if dims[0] in ("row", "residue"):
                del dims[0]
            else:
                reduce = AlignmentReduction.NONE
        case AlignmentReduction.MEAN_HEADS | AlignmentReduction.MAX_HEADS:
            dims.remove("head")
        case AlignmentReduction.TOP_K:
            dims[-1] = RANK
        case AlignmentReduction.NONE:
            pass
    return AlignmentSiteLayout(
        name=site.name,
        dims=tuple(dims),
        sizes=tuple(lengths[dim] for dim in dims),
        heads=heads,
        keys=site.keys,
        extra_rows=site.extra_rows,
        reduce=reduce,
        top_k=options.top_k,
        dtype=options.dtype,
    )


def alignment_attention_bytes(
    sites: Sequence[AttentionSite], samples: Sequence[AlignmentSizes], options: AlignmentAttentionOptions
) -> int:
    """Bytes of the finished file, to a few percent.

    Raises: SettingsError when a head is asked for that a site does not have.
    """
    total = FIXED_BYTES + len(sites) * BYTES_PER_SITE
    for sizes in samples:
        total += BYTES_PER_SAMPLE + 5 * sizes.residues
        total += BYTES_PER_NAME * (sizes.rows + sizes.extra_rows)
        for site in sites:
            total += alignment_layout(site, sizes, options).stored_bytes() + BYTES_PER_ARRAY_GROUP
    return total


def runs_over_residues(dim: str, keys: str) -> bool:
    """Whether an axis counts residues, at a site whose keys are `residue`s or `row`s."""
    return dim == "residue" or (dim in ("query", "key") and keys == "residue")


def sample_group(number: int) -> str:
    """Name of a sample's group in each site, numbered as in `/samples`.

    >>> sample_group(17)
    's0000017'
    """
    return f"s{number:07d}"


def slabs(shape: Sequence[int], itemsize: int) -> Iterator[tuple[int | slice, ...]]:
    """Indices that cover an array in C order, some megabytes each, never cutting the last axis.

    >>> list(slabs((2, 3), 1))
    [(slice(0, 2, None),)]
    """
    per_step = max(1, math.prod(shape[1:]) * itemsize)
    if per_step <= SLAB_BYTES or len(shape) <= 2:
        step = max(1, SLAB_BYTES // per_step)
        for first in range(0, shape[0], step):
            yield (slice(first, min(first + step, shape[0])),)
        return
    for number in range(shape[0]):
        for rest in slabs(shape[1:], itemsize):
            yield (number, *rest)


def coordinate(layout: AlignmentSiteLayout, dim: str, sample: AlignmentSample) -> NDArray[np.int32]:
    """Values of one axis: the model's head numbers, match columns where it counts residues, or plain numbers."""
    if dim == "head":
        return np.asarray(layout.heads, dtype=np.int32)
    if runs_over_residues(dim, layout.keys):
        return sample.seen_columns
    return np.arange(layout.sizes[layout.dims.index(dim)], dtype=np.int32)
