"""What a file of results holds: a sample table and groups of arrays over named axes (`docs/formats/attention.md`).

A group keeps all samples in arrays with an axis `sample`, ragged axes padded to the longest, or has one group of
arrays per sample (`GroupLayout.per_sample`), where padding would waste more than half.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AttentionSite, Axis
from bioattn.choices import Reduction, WeightType
from bioattn.errors import BioattnError, SettingsError
from bioattn.store.shards import ShardRecord

FORMAT = "bioattn-attention"
ATTRIBUTION_FORMAT = "bioattn-attribution"
FORMAT_VERSION = "2.0"
"""Major.minor: a reader of major version 2 reads every 2.x and refuses 3.0 by name."""

SAMPLE, HEAD, QUERY, KEY, RANK = "sample", "head", "query", "key", "rank"
SITES, PREDICTIONS = "sites", "predictions"
WEIGHTS, VALUE_WEIGHTED, KEY_INDEX = "weights", "value_weighted", "key_index"
CONTRIBUTIONS = "contributions"
ATOM_CONTRIBUTIONS = "atom_contributions"
"""The group of files over molecules with what atoms contribute: sample × task × radius × place."""
POSITION = "position"
"""Kind of axes that run over bases of a window, or bins of them."""
TEXT = "text"
"""Data type of names; all others are NumPy's."""

SMALL_CHUNK_BYTES = 1 << 17
"""Heads and samples share a chunk while it stays below this: one gene is read in milliseconds, one treatment at
once."""
MAP_CHUNK_BYTES = 1 << 22
"""Largest chunk: one head's map up to 1024 × 1024 in float32 is one chunk; larger ones are cut along queries."""
BAND_BYTES = 1 << 24
"""Most that the chunks of one array which hold the same samples take together, but for one sample of more."""
SLAB_BYTES = 1 << 24
MAP_AXES = (QUERY, KEY, RANK, POSITION, "base")
"""Axes of one map. A chunk holds one place of any other axis but `head` and `sample`: one treatment, one row."""

FIXED_BYTES = 1 << 14
BYTES_PER_ARRAY_GROUP = 1800
"""One sample's group at one site: headers, dimension scales and their references."""
COST_OF_GROUP = 7000
"""What the time that a sample's group takes is worth in bytes."""
BYTES_PER_NAME = 30
"""A sample's name in one group, and its line in the sample table, generously."""

Values: TypeAlias = NDArray[Any] | list[str]
"""Numbers, or text, of one dataset."""
Rows: TypeAlias = slice | NDArray[np.int64]
Attribute: TypeAlias = str | bool | int | tuple[int, ...] | tuple[float, ...]


LONG_NAMES = {
    Reduction.NONE: "attention weight",
    Reduction.MEAN_HEADS: "attention weight, mean over heads",
    Reduction.MAX_HEADS: "attention weight, maximum over heads",
    Reduction.MEAN_ROWS: "attention weight, mean over rows",
    Reduction.MAX_ROWS: "attention weight, maximum over rows",
    Reduction.TOP_K: "largest attention weights of each query",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOptions:
    """What of a model's attention is written."""

    sites: tuple[str, ...] = ("*",)
    heads: tuple[int, ...] | None = None
    """0-based heads to keep, in this order; None = all."""
    dtype: WeightType = WeightType.FLOAT32
    """float16 takes half the space but netCDF programs cannot read it."""
    reduce: Reduction = Reduction.NONE
    """Mean or maximum over the kept heads, or over the outer axis; or only the largest weights of each query."""
    top_k: int = 16
    value_weighted: bool = False
    """Also write weights times the norm of the value vector."""
    phases: int = 1
    """Shifted windows whose maps are averaged into finer bins (`bioattn.models.promoter.running`)."""

    def __post_init__(self) -> None:
        if not self.sites:
            raise SettingsError(
                "no attention sites asked for; give a pattern such as '*.cross.*' or '*.msa_row'"
            )
        if self.heads is not None and (not self.heads or len(set(self.heads)) != len(self.heads)):
            raise SettingsError(f"heads {list(self.heads)}: give at least one head, each once")
        if self.top_k < 1:
            raise SettingsError(f"top-k needs at least one key, {self.top_k} were asked for")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the sample table, `/samples/<name>`."""

    name: str
    dtype: str
    """NumPy's name, or `text`."""
    long_name: str = ""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A list of each sample, `/samples/<name>/s0000017`; a sample without one has no dataset."""

    name: str
    dtype: str
    """NumPy's name, or `text`."""
    kind: str
    """The kind of axis whose places it names: of several lists the one of text."""
    lengths: str
    long_name: str = ""


ID = Column("id", TEXT, "sample id")


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Some samples in file order."""

    columns: Mapping[str, Values]
    """By name, `id` first; each as long as there are samples."""
    lists: Mapping[str, Sequence[Values | None]] = field(default_factory=dict)
    """By name; None for a sample without one."""

    @property
    def ids(self) -> list[str]:
        return list(self.columns["id"])

    def __len__(self) -> int:
        return len(self.columns["id"])

    def digest(self) -> str:
        """SHA-256 of their ids."""
        return hashlib.sha256("\0".join(self.ids).encode()).hexdigest()

    def part(self, rows: Rows) -> "Samples":
        return Samples(
            {name: taken(values, rows) for name, values in self.columns.items()},
            {name: taken(values, rows) for name, values in self.lists.items()},
        )

    def lengths(self, number: int) -> dict[str, int]:
        """The integer columns of one sample, which hold the lengths of its ragged axes."""
        return {
            name: int(values[number])
            for name, values in self.columns.items()
            if isinstance(values, np.ndarray) and values.dtype.kind in "iu"
        }


def taken(values: Any, rows: Rows) -> Any:
    """Rows of an array, a list or a range."""
    if isinstance(rows, slice) or isinstance(values, np.ndarray):
        return values[rows]
    return [values[row] for row in rows]


class Block(NamedTuple):
    """Consecutive samples and their arrays."""

    samples: Samples
    arrays: Mapping[str, Mapping[str, NDArray[Any]]]
    """By path of the group and name; the first axis is `sample`."""


def _joined(pieces: Sequence[Any]) -> Any:
    return np.concatenate(pieces) if isinstance(pieces[0], np.ndarray) else [x for p in pieces for x in p]


def join_samples(pieces: Sequence[Samples]) -> Samples:
    """The samples of several pieces, at least one, one after the other."""
    columns = {name: _joined([piece.columns[name] for piece in pieces]) for name in pieces[0].columns}
    lists = {name: _joined([piece.lists[name] for piece in pieces]) for name in pieces[0].lists}
    return Samples(columns, lists)


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a group."""

    name: str
    dtype: str
    dims: tuple[str, ...]
    """Names of its axes but `sample`, in the group's order."""
    long_name: str = ""

    @property
    def itemsize(self) -> int:
        """Bytes of a value."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLayout:
    """A group of arrays over named axes: an attention site, an attribution, the predictions."""

    path: str
    """Such as `sites/promoter.cross.0`."""
    axes: tuple[Axis, ...]
    """All but `sample`, in stored order. An array may lack some."""
    arrays: tuple[Array, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    per_sample: bool = False
    """Whether each sample has arrays of its own, without a sample axis."""

    def __post_init__(self) -> None:
        # In the order in which HDF5 lists them, so that a layout is read as it was written.
        object.__setattr__(self, "arrays", tuple(sorted(self.arrays, key=lambda array: array.name)))

    def axis(self, name: str) -> Axis:
        """The axis of this name. Raises: KeyError."""
        return {axis.name: axis for axis in self.axes}[name]

    def shape(self, array: Array, lengths: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Lengths of an array's axes but `sample`.

        lengths: the sample's, by column of the sample table; None = of all samples alike, padded to the longest.
        """
        return tuple(axis_length(self.axis(dim), lengths) for dim in array.dims)

    def within(self, array: Array, lengths: Mapping[str, int]) -> tuple[slice, ...]:
        """Where in an array that is padded to the longest sample the values of one sample lie."""
        return tuple(slice(size) for size in self.shape(array, lengths))

    def padded(self, array: Array, values: NDArray[Any], samples: Samples) -> NDArray[Any]:
        """Values of some samples in an array of all samples: as long as the longest of all, 0 behind each end."""
        shape = self.shape(array)
        lengths = [samples.lengths(place) for place in range(len(values))]
        if values.shape[1:] == shape and all(self.shape(array, each) == shape for each in lengths):
            return values
        whole = np.zeros((len(values), *shape), dtype=array.dtype)
        for place, each in enumerate(lengths):
            within = self.within(array, each)
            whole[place][within] = values[place][within]
        return whole

    @property
    def ragged(self) -> bool:
        """Whether the length of an axis differs by sample."""
        return any(axis.lengths is not None for axis in self.axes)

    def chunk(
        self, array: Array, num_samples: int | None, lengths: Mapping[str, int] | None = None
    ) -> tuple[int, ...]:
        """Shape of the chunks of an array; num_samples: None of one without a sample axis.

        The last axis is never cut: it is a row of weights, which sums to 1 and is what is looked at. One head's
        map is one chunk, so it is one read, and so is one treatment or row of the outer axes: it is read without
        touching the others. Small maps share a chunk with other heads, and then with other samples, fewer where
        there are so many treatments that the chunks of some samples, which are written together, would not fit
        into `BAND_BYTES`.
        """
        shape = self.shape(array, lengths)
        size = array.itemsize
        sizes: list[int] = []
        for dim, length in reversed(list(zip(array.dims, shape, strict=True))):
            if not sizes:
                part = max(1, length)
            elif dim in MAP_AXES:
                part = _even_part(length, MAP_CHUNK_BYTES // size)
            else:
                part = _even_part(length, SMALL_CHUNK_BYTES // size) if dim == HEAD else 1
            size *= part
            sizes.append(part)
        if num_samples is not None:
            room = min(SMALL_CHUNK_BYTES // size, BAND_BYTES // max(1, math.prod(shape) * array.itemsize))
            sizes.append(_even_part(num_samples, room))
        return tuple(reversed(sizes))

    def bytes_of_sample(self, lengths: Mapping[str, int] | None = None) -> int:
        """Bytes of one sample's values, all arrays together."""
        return sum(math.prod(self.shape(array, lengths)) * array.itemsize for array in self.arrays)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """All that is known of a file before its samples are."""

    format: str = FORMAT
    inputs: str
    """What the samples are, such as `promoters` or `alignments`."""
    model_sha256: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    """Of the sample table, but `id`."""
    lists: tuple[ListColumn, ...] = ()
    groups: tuple[GroupLayout, ...] = ()
    shard: ShardRecord | None = None
    """Which part of which whole the file is; None for a whole."""

    def __post_init__(self) -> None:
        # In the order in which HDF5 lists them, so that a layout is read as it was written.
        object.__setattr__(self, "lists", tuple(sorted(self.lists, key=lambda listed: listed.name)))
        object.__setattr__(self, "groups", tuple(sorted(self.groups, key=lambda group: group.path)))

    def to_json(self) -> str:
        """As it stands in a file, without the shard."""

        def plain(value: Any) -> Any:
            if isinstance(value, Mapping):
                return dict(value)
            return {one.name: getattr(value, one.name) for one in fields(value) if one.name != "shard"}

        return json.dumps(plain(self), default=plain)

    def stored_bytes(self, num_samples: int, lengths: Sequence[Mapping[str, int]] = ()) -> int:
        """Bytes of the finished file, to a few percent; lengths: of each sample, for what each has of its own."""
        listed = sum(each.get(column.lengths, 0) for column in self.lists for each in lengths)
        size = (
            FIXED_BYTES + num_samples * BYTES_PER_NAME * (1 + len(self.lists)) + listed * BYTES_PER_NAME // 2
        )
        for group in self.groups:
            if group.per_sample:
                size += sum(BYTES_PER_ARRAY_GROUP + group.bytes_of_sample(each) for each in lengths)
            else:
                size += num_samples * (BYTES_PER_NAME + group.bytes_of_sample())
        return size


def axis_length(axis: Axis, lengths: Mapping[str, int] | None = None) -> int:
    """How many places an axis has in the sample of these lengths; None = in the array of all samples.

    Raises: ValueError when the axis does not say, as in a damaged file.
    """
    if axis.lengths is not None and lengths is not None:
        length = lengths[axis.lengths]
        return length if axis.limit is None else min(length, axis.limit)
    if axis.size is None:
        raise ValueError(f"the axis {axis.name!r} has no length")
    return axis.size


def site_layout(
    site: AttentionSite,
    options: AttentionOptions,
    *,
    sizes: Mapping[str, int] | None = None,
    coordinates: Mapping[str, Sequence[str]] | None = None,
    lengths: Sequence[Mapping[str, int]] | None = None,
    per_sample: bool | None = None,
) -> GroupLayout:
    """How a site's weights are stored under `options`.

    sizes: lengths of axes that the site leaves open, by name. coordinates: names of their places instead, by kind.
    lengths: of all samples of the whole (of all shards) by column of the sample table, where axes are ragged.
    per_sample: whether each sample has its own arrays; None = where padding to the longest would waste more than
    half of the file.

    Raises: BioattnError when a head is asked for that the site does not have.
    """
    heads = kept_heads(site, options.heads)
    by_name = {axis.name: axis for axis in _known_axes(site, sizes or {}, coordinates or {}, lengths or ())}
    outer = [axis for name, axis in by_name.items() if name not in (SAMPLE, HEAD, *MAP_AXES)]
    # What was asked for need not be what is done: a site without rows has none to take a mean over.
    reduce = Reduction.NONE if options.reduce.over_rows and not outer else options.reduce
    stored = outer[1:] if reduce.over_rows else outer
    if HEAD in by_name and not reduce.over_heads:
        stored.append(Axis(HEAD, coordinates=heads))
    if QUERY in by_name:
        stored.append(by_name[QUERY])
    key = by_name[KEY]
    attributes: dict[str, Attribute] = {"reduce": str(reduce), "heads": heads, "sink": site.null_key}
    arrays = {WEIGHTS: LONG_NAMES[reduce]}
    if reduce is Reduction.TOP_K:
        size = None if key.size is None else min(options.top_k, key.size)
        limit = options.top_k if key.lengths else None
        stored.append(Axis(RANK, size=size, lengths=key.lengths, limit=limit))
        attributes["top_k"] = options.top_k
        arrays[KEY_INDEX] = "place along the axis key that the weight is of"
    if site.contributes and reduce is Reduction.NONE:
        arrays[CONTRIBUTIONS] = "what a key adds to the prediction: weight times value"
    elif options.value_weighted and not site.contributes:
        arrays[VALUE_WEIGHTED] = f"{LONG_NAMES[reduce]} times norm of the value vector"
    dims = tuple(axis.name for axis in stored) + (() if reduce is Reduction.TOP_K else (KEY,))
    if site.receptive_field is not None:
        attributes["receptive_field"] = site.receptive_field
    if options.phases > 1:
        attributes["phases"] = options.phases
    layout = GroupLayout(
        path=f"{SITES}/{site.name}",
        axes=(*stored, key),
        arrays=tuple(
            Array(name, "int32" if name == KEY_INDEX else str(options.dtype), dims, long_name)
            for name, long_name in arrays.items()
        ),
        attributes=attributes,
    )
    if per_sample is None:
        # The axes of one sample alone can bear its names; a group costs something to write and read, too.
        own = sum(layout.bytes_of_sample(each) + COST_OF_GROUP for each in lengths or ())
        per_sample = len(lengths or ()) == 1 or 2 * own < len(lengths or ()) * layout.bytes_of_sample()
    return replace(layout, per_sample=per_sample)


def _known_axes(
    site: AttentionSite,
    sizes: Mapping[str, int],
    coordinates: Mapping[str, Sequence[str]],
    lengths: Sequence[Mapping[str, int]],
) -> Iterator[Axis]:
    """The axes of a site, what it leaves open filled in."""
    for axis in site.axes:
        if axis.kind in coordinates:
            axis = replace(axis, coordinates=tuple(coordinates[axis.kind]))
        if axis.size is None and axis.name in sizes:
            axis = replace(axis, size=sizes[axis.name])
        if axis.lengths is not None and lengths:
            axis = replace(axis, size=max(each[axis.lengths] for each in lengths))
        yield axis


def predictions_layout(treatments: Sequence[str]) -> GroupLayout:
    """What a model predicted of each sample for each treatment."""
    axis = Axis("treatment", coordinates=tuple(treatments))
    return GroupLayout(
        path=PREDICTIONS, axes=(axis,), arrays=(Array("values", "float32", ("treatment",), "prediction"),)
    )


def kept_heads(site: AttentionSite, wanted: tuple[int, ...] | None) -> tuple[int, ...]:
    """Numbers of the heads to keep of a site, None = all. Raises: BioattnError for one that it does not have."""
    heads = wanted if wanted is not None else site.heads
    for head in heads:
        if head not in site.heads:
            pruned = site.heads != tuple(range(site.num_heads))
            had = ", ".join(map(str, site.heads)) if pruned else f"0 to {site.num_heads - 1}"
            raise BioattnError(
                f"site {site.name} has heads {had}, but {head} was asked for; choose other heads, or sites "
                "that have it"
            )
    return heads


def listed_places(
    lists: Sequence[ListColumn], values: Callable[[ListColumn], Values | None]
) -> dict[str, Values]:
    """What the places of one sample's ragged axes are called, by kind of axis. values: of a list of the sample."""
    found = {}
    for listed in sorted(lists, key=lambda listed: listed.dtype == TEXT):
        if (places := values(listed)) is not None:
            found[listed.kind] = places
    return found


def axis_places(
    axis: Axis, lengths: Mapping[str, int] | None, listed: Mapping[str, Values] | None = None
) -> Values:
    """Coordinates of an axis: what the sample calls them, middles of bins, names, numbers of heads, or numbers
    from 0.

    lengths: of the sample whose axis it is; None = of all samples. listed: of the sample, by `listed_places`.
    """
    if listed and axis.lengths is not None and axis.kind in listed:
        return listed[axis.kind]
    if axis.edges is not None:
        bounds = np.asarray(axis.edges, dtype=np.float64)
        return (bounds[:-1] + bounds[1:]) / 2
    if axis.coordinates is None:
        return np.arange(axis_length(axis, lengths), dtype=np.int32)
    if axis.coordinates and not isinstance(axis.coordinates[0], str):
        return np.asarray(axis.coordinates, dtype=np.int32)
    return [str(name) for name in axis.coordinates]


def sample_group(number: int) -> str:
    """Name of a sample's own group or list, numbered as in `/samples`.

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


def _even_part(length: int, room: int) -> int:
    """The size of the fewest equal parts of at most `room` places each, at least one."""
    number = -(-length // max(1, room))
    return -(-length // max(1, number)) or 1
