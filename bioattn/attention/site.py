"""A place in a model where attention happens, and the axes of its weights."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of an array: its name, what its places are, and where they lie.

    An axis without `lengths` is as long in every sample. Its length follows from `coordinates` or `edges`, or it
    is `size`; a family that does not know it beforehand leaves all three out.
    """

    name: str
    """Such as `treatment`, `row`, `head`, `query`, `key`; no two axes of an array share a name."""
    kind: str = ""
    """What its places are, such as `position` (bins of a promoter), `residue`, `msa_row`, `token`, `layer`,
    `step`. The list is open; an empty kind stands for the axis's name."""
    size: int | None = None
    """Number of places; of a ragged axis the largest of all samples."""
    coordinates: tuple[str, ...] | tuple[int, ...] | None = None
    """A name or number for each place, such as the treatments; None = counted from 0."""
    edges: tuple[int, ...] | None = None
    """Of `size` bins, `size` + 1 edges in bases from the window's first base, 5'→3': bin i covers
    `[edges[i], edges[i + 1])`."""
    lengths: str | None = None
    """Of a ragged axis, the column of the sample table that holds its length in each sample."""
    limit: int | None = None
    """Of a ragged axis, the most places it has: its length is the smaller of this and `lengths`."""

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", self.name)
        if self.size is None and self.coordinates is not None:
            object.__setattr__(self, "size", len(self.coordinates))
        if self.size is None and self.edges is not None:
            object.__setattr__(self, "size", len(self.edges) - 1)


class Tile(NamedTuple):
    """Which slice of one axis some weights are, where a layer attends part of it at a time."""

    axis: str
    start: int
    """0-based; the tile ends where its weights do."""
    total: int
    head: int | None = None
    """Of a tile of queries that holds one head alone, the number of that head; None = all heads."""


@dataclass(frozen=True, slots=True)
class MapTiles:
    """How the maps of one sample are wanted that are too large to be whole: some queries of one head at a time."""

    heads: tuple[int, ...] | None = None
    """Numbers of the heads, in the order in which they are wanted; None = all."""
    queries_first: bool = False
    """Whether all heads of some queries come before the next queries, not all queries before the next head."""


class Contribution(StrEnum):
    """How it is known what a key of a site adds to the prediction, which is then handed on beside its weight."""

    NONE = ""
    PRODUCT = "product"
    """The prediction is a weighted sum of numbers that are read of the values: weight × number, with its sign."""
    GRADIENT = "gradient"
    """The prediction is no such sum: integrated gradients (`bioattn.attention.measures`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSite:
    """Name and axes of one attention site."""

    name: str
    """For example `promoter.cross.0` or `evoformer.07.msa_row`; it holds no slash."""
    axes: tuple[Axis, ...]
    """Of the weights, in the order in which the operator emits them. The last one is `key`, the queries are
    `query`, the heads `head`; `sample` is the batch. A site lacks the axes that do not exist in it."""
    heads: tuple[int, ...]
    """Numbers of its heads, from 0. Pruning leaves gaps: a head keeps the number it had."""
    receptive_field: int | None = None
    """Bases one key sees, centred on its bin; None when keys are not positions, or each sees all of them."""
    null_key: bool = False
    """Whether there is one more, learned key that stands for "nowhere". It is not handed on, so that a row's
    weights sum to at most 1."""
    contributes: Contribution = Contribution.NONE

    @classmethod
    def of_ragged(cls, name: str, heads: int, queries: str, keys: str) -> "AttentionSite":
        """queries, keys: columns with the lengths of its axes; the singular is what their places are."""
        axes = (
            Axis("sample"),
            Axis("head", size=heads),
            Axis("query", queries.removesuffix("s"), lengths=queries),
            Axis("key", keys.removesuffix("s"), lengths=keys),
        )
        return cls(name=name, axes=axes, heads=tuple(range(heads)))

    @property
    def num_heads(self) -> int:
        """Attention heads."""
        return len(self.heads)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    def axis(self, name: str) -> Axis | None:
        """The axis of this name; None without one."""
        return next((axis for axis in self.axes if axis.name == name), None)

    @property
    def key_edges(self) -> tuple[int, ...] | None:
        """Edges of the keys' bins; None when keys are not positions."""
        return self.axes[-1].edges
