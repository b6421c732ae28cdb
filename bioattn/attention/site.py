"""A place in a model where attention happens, and what its weights mean."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

AXES = ("sample", "treatment", "row", "residue", "head", "query", "key")
"""The canonical order of the axes of attention weights; a site lacks those that do not exist in it."""


class Tile(NamedTuple):
    """Which slice of a site's outer axis some weights are, where a layer attends part of it at a time."""

    axis: str
    """`row` or `residue`."""
    start: int
    """0-based; the tile ends where its weights do."""
    total: int
    """Length of the whole axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSite:
    """Name and geometry of one attention site.

    Positions are bases counted from the first base of the window (flanks excluded), 0-based, in the 5'→3'
    direction of the gene; edges are half-open bins `[edges[i], edges[i + 1])`. Sites over an alignment have none:
    their queries and keys are residues or rows, counted from 0.
    """

    name: str
    """For example `promoter.cross.0` or `evoformer.07.msa_row`."""
    axes: tuple[str, ...]
    """Names (out of `AXES`) of the weights' axes in the order the operator emits them."""
    num_heads: int
    """Attention heads."""
    heads_left: tuple[int, ...] = ()
    """Where heads were pruned, the numbers that the heads left had before, one each; empty: none was."""
    key_edges: tuple[int, ...] | None = None
    """K + 1 bin edges of the keys; None when keys are not positions."""
    query_edges: tuple[int, ...] | None = None
    """Q + 1 bin edges of the queries; None when queries are not positions."""
    receptive_field: int | None = None
    """Bases one key sees, centred on its bin; None when keys are not positions."""
    sink: bool = False
    """With a sink a row's weights sum to at most 1; the rest went to a learned key that stands for "nowhere"."""
    keys: Literal["residue", "row"] | None = None
    """What queries and keys are in a site over an alignment: its residues or its rows."""
    extra_rows: bool = False
    """Whether rows are those of the extra MSA and not of the clustered MSA."""

    @property
    def head_numbers(self) -> tuple[int, ...]:
        """What the heads are called: 0, 1, …, in a pruned model with gaps."""
        return self.heads_left or tuple(range(self.num_heads))


_ALIGNMENT_LAYERS: dict[str, tuple[tuple[str, ...], Literal["residue", "row"]]] = {
    "msa_row": (("row", "head", "query", "key"), "residue"),
    "msa_column": (("residue", "head", "query", "key"), "row"),
    "msa_column_global": (("residue", "head", "key"), "row"),
    "triangle_starting": (("residue", "head", "query", "key"), "residue"),
    "triangle_ending": (("residue", "head", "query", "key"), "residue"),
    "invariant_point": (("head", "query", "key"), "residue"),
}
"""Axes, and what the keys are, by layer of the MSA/pair stack."""


def alignment_site(stack: str, block: int, layer: str, num_heads: int) -> AttentionSite:
    """The site of one layer of the MSA/pair stack.

    stack: `evoformer`, `extra_msa` or `structure`; block: from 0; layer: `msa_row`, `msa_column`,
    `msa_column_global` (one query per column, so no query axis), `triangle_starting`, `triangle_ending` (there
    `residue` is the ending node), `invariant_point`. Named `evoformer.07.msa_row`, `structure.invariant_point.3`.
    """
    axes, keys = _ALIGNMENT_LAYERS[layer]
    name = f"{stack}.{layer}.{block}" if layer == "invariant_point" else f"{stack}.{block:02d}.{layer}"
    return AttentionSite(
        name=name, axes=axes, num_heads=num_heads, keys=keys, extra_rows=stack == "extra_msa"
    )
