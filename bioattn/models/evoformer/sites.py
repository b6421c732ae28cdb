"""The attention sites of an MSA/pair model, and their axes."""

from bioattn.attention.site import AttentionSite, Axis

RESIDUE, MSA_ROW, EXTRA_MSA_ROW, TEMPLATE = "residue", "msa_row", "extra_msa_row", "template"
"""Kinds of axes."""
LENGTHS = {RESIDUE: "length", MSA_ROW: "rows", EXTRA_MSA_ROW: "extra_rows"}
"""Column of the sample table that holds the length of an axis, by kind."""

_LAYERS: dict[str, tuple[tuple[str, ...], str]] = {
    "msa_row": (("row", "head", "query", "key"), "residue"),
    "msa_column": (("residue", "head", "query", "key"), "row"),
    "msa_column_global": (("residue", "head", "key"), "row"),
    "triangle_starting": (("residue", "head", "query", "key"), "residue"),
    "triangle_ending": (("residue", "head", "query", "key"), "residue"),
    "invariant_point": (("head", "query", "key"), "residue"),
}
"""Names of the axes, and what queries and keys are, by layer."""


def alignment_site(
    stack: str, block: int, layer: str, num_heads: int, *, tied: bool = False
) -> AttentionSite:
    """The site of one layer of the MSA/pair stack.

    stack: `evoformer`, `extra_msa` or `structure`; block: from 0; layer: `msa_row`, `msa_column`,
    `msa_column_global` (one query per column, so no query axis), `triangle_starting`, `triangle_ending` (there
    `residue` is the ending node), `invariant_point`. Named `evoformer.07.msa_row`, `structure.invariant_point.3`.
    tied: of `msa_row`, one map for all rows, so no `row` axis.
    """
    dims, keys = _LAYERS[layer]
    if tied:
        dims = dims[1:]
    row = EXTRA_MSA_ROW if stack == "extra_msa" else MSA_ROW
    kinds = {"row": row, "residue": RESIDUE, "head": "head"}
    axes = []
    for dim in dims:
        kind = kinds[keys if dim in ("query", "key") else dim]
        axes.append(Axis(dim, kind, lengths=LENGTHS.get(kind)))
    name = f"{stack}.{layer}.{block}" if layer == "invariant_point" else f"{stack}.{block:02d}.{layer}"
    return AttentionSite(name=name, axes=tuple(axes), heads=tuple(range(num_heads)))


TEMPLATE_SITE = "template.pointwise"


def template_site(num_heads: int, names: tuple[str, ...] | None = None) -> AttentionSite:
    """The attention of every pair of residues (i, j) to the templates: one query per pair, so no query axis.

    names: of the templates, where they are known.
    """
    axes = (
        Axis("residue", RESIDUE, lengths=LENGTHS[RESIDUE]),
        Axis("partner", RESIDUE, lengths=LENGTHS[RESIDUE]),
        Axis("head"),
        Axis("key", TEMPLATE, coordinates=names),
    )
    return AttentionSite(name=TEMPLATE_SITE, axes=axes, heads=tuple(range(num_heads)))
