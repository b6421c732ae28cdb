"""A place in a model where attention happens, and what its weights mean."""

from dataclasses import dataclass

AXES = ("sample", "treatment", "head", "query", "key")
"""The canonical order of the axes of attention weights; a site lacks those that do not exist in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSite:
    """Name and geometry of one attention site.

    Positions are bases counted from the first base of the window (flanks excluded), 0-based, in the 5'→3'
    direction of the gene; edges are half-open bins `[edges[i], edges[i + 1])`.
    """

    name: str
    """For example `promoter.cross.0`."""
    axes: tuple[str, ...]
    """Names (out of `AXES`) of the weights' axes in the order the operator emits them."""
    num_heads: int
    """Attention heads."""
    key_edges: tuple[int, ...] | None = None
    """K + 1 bin edges of the keys; None when keys are not positions."""
    query_edges: tuple[int, ...] | None = None
    """Q + 1 bin edges of the queries; None when queries are not positions."""
    receptive_field: int | None = None
    """Bases one key sees, centred on its bin; None when keys are not positions."""
    sink: bool = False
    """With a sink a row's weights sum to at most 1; the rest went to a learned key that stands for "nowhere"."""
