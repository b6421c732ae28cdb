"""What an attention HDF5 file holds: names, dtypes, chunks and sizes (`docs/formats/attention.md`)."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AXES, AttentionSite
from bioattn.errors import BioattnError, SettingsError
from bioattn.store.choices import Reduction, WeightType

FORMAT = "bioattn-attention"
FORMAT_VERSION = "1.1"
"""Major.minor: a reader of major version 1 reads every 1.x and refuses 2.0 by name."""
PROMOTER_VERSION = "1.0"
"""What files over promoters say: they hold nothing that a reader of 1.0 must know of."""

SAMPLE_FIELDS = ("id", "chrom", "start", "end", "strand")
WEIGHTS = "weights"
VALUE_WEIGHTED = "value_weighted"
KEY_EDGES = "key_edges"
QUERY_EDGES = "query_edges"
PREDICTIONS = "predictions"
DIGEST = "sha256"

CHUNK_BYTES = 1 << 17
"""Aim of one chunk: small enough to read one gene in milliseconds, large enough to read a treatment at once."""
BAND_BYTES = 1 << 24
"""Most that the chunks which hold the same samples take together, but for one sample of more."""


class Samples(NamedTuple):
    """Some samples in file order: gene ids and where their windows lie (0-based, half-open; -1 unknown)."""

    ids: list[str]
    chrom: list[str]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    strand: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOptions:
    """What of a model's attention is written."""

    sites: tuple[str, ...] = ("*",)
    """Shell patterns of site names."""
    heads: tuple[int, ...] | None = None
    """0-based heads to keep, in this order; None = all."""
    dtype: WeightType = WeightType.FLOAT32
    """float16 takes half the space but netCDF programs cannot read it."""
    reduce: Reduction = Reduction.NONE
    """Mean or maximum over the kept heads; the file then has no head axis."""
    value_weighted: bool = False
    """Also write weights times the norm of the value vector."""
    phases: int = 1
    """Shifted windows whose maps are averaged into finer bins (`bioattn.models.promoter.inference.phases`)."""

    def __post_init__(self) -> None:
        if not self.sites:
            raise SettingsError("no attention sites asked for; give a pattern such as 'promoter.*'")
        if self.heads is not None and (not self.heads or len(set(self.heads)) != len(self.heads)):
            raise SettingsError(f"heads {list(self.heads)}: give at least one head, each once")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLayout:
    """One site as it is stored: `dims` (canonical order, absent axes left out) and their sizes but sample's."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    """Sizes of `dims[1:]`; `dims[0]` is always sample."""
    heads: tuple[int, ...]
    """The model's head numbers that were kept (or reduced over)."""
    reduce: Reduction
    dtype: WeightType
    value_weighted: bool
    key_edges: tuple[int, ...] | None
    query_edges: tuple[int, ...] | None
    receptive_field: int | None
    sink: bool
    phases: int = 1
    """Shifted windows whose maps were averaged."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the arrays written."""
        return (WEIGHTS, VALUE_WEIGHTED) if self.value_weighted else (WEIGHTS,)

    @property
    def bytes_per_sample(self) -> int:
        """Bytes one sample takes, all arrays together."""
        return len(self.quantities) * math.prod(self.sizes) * np.dtype(self.dtype).itemsize

    def size_of(self, dim: str) -> int:
        """Length of an axis other than sample."""
        return self.sizes[self.dims.index(dim) - 1]

    def stored_bytes(self, num_samples: int) -> int:
        """Bytes of all arrays in the file; HDF5 stores whole chunks."""
        chunk = self.chunk(num_samples)
        shape = (num_samples, *self.sizes)
        elements = math.prod(-(-size // part) * part for size, part in zip(shape, chunk, strict=True))
        return len(self.quantities) * elements * np.dtype(self.dtype).itemsize

    def chunk(self, num_samples: int) -> tuple[int, ...]:
        """Chunk shape: whole rows of keys, then queries, heads and samples while it stays near `CHUNK_BYTES`.

        One treatment per chunk, so that one treatment of all genes is read without touching the others, and
        one gene costs one chunk per treatment. Fewer samples where there are so many treatments that the chunks
        of some samples would not fit into `BAND_BYTES`: they are written together.
        """
        room = max(1, CHUNK_BYTES // np.dtype(self.dtype).itemsize)
        chunk = [1] * len(self.dims)
        for axis in range(len(self.dims) - 1, 0, -1):
            if self.dims[axis] == "treatment":
                continue
            size = self.sizes[axis - 1]
            # The keys of one query are never cut: a row is what sums to 1 and what is looked at.
            chunk[axis] = size if self.dims[axis] == "key" else min(size, _power_of_two(room))
            room = max(1, room // chunk[axis])
        together = min(room, max(1, BAND_BYTES * len(self.quantities) // max(1, self.bytes_per_sample)))
        chunk[0] = min(max(1, num_samples), _power_of_two(together))
        return tuple(chunk)


def site_layout(site: AttentionSite, shape: Sequence[int], options: AttentionOptions) -> SiteLayout:
    """How a site whose weights come as `shape` (axes as `site.axes`) is stored under `options`.

    Raises: SettingsError when a head is asked for that the site does not have.
    """
    sizes = dict(zip(site.axes, shape, strict=True))
    heads = kept_heads(site, options.heads)
    if "head" in sizes:
        sizes["head"] = len(heads)
        if options.reduce is not Reduction.NONE:
            del sizes["head"]
    dims = tuple(axis for axis in AXES if axis in sizes)
    return SiteLayout(
        name=site.name,
        dims=dims,
        sizes=tuple(sizes[dim] for dim in dims[1:]),
        heads=heads,
        reduce=options.reduce,
        dtype=options.dtype,
        value_weighted=options.value_weighted,
        key_edges=site.key_edges,
        query_edges=site.query_edges,
        receptive_field=site.receptive_field,
        sink=site.sink,
    )


def kept_heads(site: AttentionSite, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Numbers of the heads to keep of a site, None = all. Raises: BioattnError for one that it does not have."""
    there = site.head_numbers
    heads = wanted if wanted is not None else there
    for head in heads:
        if head not in there:
            had = ", ".join(map(str, there)) if site.heads_left else f"0 to {site.num_heads - 1}"
            raise BioattnError(
                f"site {site.name} has heads {had}, but {head} was asked for; choose other heads, or sites "
                "that have it"
            )
    return heads


def bin_centres(edges: Sequence[int]) -> NDArray[np.float64]:
    """Middle of each half-open bin, in bases from the first base of the window."""
    bounds = np.asarray(edges, dtype=np.float64)
    return (bounds[:-1] + bounds[1:]) / 2


def row_sum_tolerance(dtype: np.dtype[np.floating]) -> float:
    """How far a row of stored weights may be from its sum: rounding to float16 moves each by up to 2^-11."""
    return 2e-3 if dtype == np.float16 else 1e-4


class Digest:
    """SHA-256 of values in C order: numbers little-endian; strings as UTF-8, each ended by a zero byte."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, values: NDArray[np.generic] | Sequence[str]) -> None:
        """Go on with the next values."""
        if isinstance(values, np.ndarray):
            little = values.astype(values.dtype.newbyteorder("<"), order="C", copy=False)
            self._hash.update(little.view(np.uint8).data)
        else:
            self._hash.update(b"".join(text.encode() + b"\0" for text in values))

    def hexdigest(self) -> str:
        """The digest so far."""
        return self._hash.hexdigest()


def _power_of_two(number: int) -> int:
    """The largest power of two not above `number`."""
    return 1 << (number.bit_length() - 1)
