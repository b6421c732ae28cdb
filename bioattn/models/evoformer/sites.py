"""The attention sites of an MSA/pair model, their axes, and how alignments stand in attention files.

Every alignment has arrays of its own, never padded ones: one may fail, and no shard knows the sizes of another's.
Shapes: S rows of the clustered MSA, E rows of the extra MSA, R residues (match columns that the model sees).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bioattn.attention.site import AttentionSite, Axis
from bioattn.errors import SettingsError
from bioattn.store.schema import TEXT, AttentionOptions, Column, FileLayout, ListColumn, Samples, site_layout

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


ALIGNMENTS = "alignments"
"""What attention files over alignments say of their inputs."""
ALIGNMENT_COLUMNS = (
    Column("length", "int32", "match columns that the model saw"),
    Column("alignment_columns", "int32", "match columns of the alignment"),
    Column("rows", "int32", "rows of the clustered MSA that the model saw"),
    Column("extra_rows", "int32", "rows of the extra MSA that the model saw"),
    Column("query", TEXT, "the target row, - where it has a gap"),
    Column("input_sha256", TEXT, "SHA-256 of the alignment file"),
)
ALIGNMENT_LISTS = (
    ListColumn("columns", "int32", RESIDUE, LENGTHS[RESIDUE], "match columns that the residues are, from 0"),
    ListColumn("residue_names", TEXT, RESIDUE, LENGTHS[RESIDUE], long_name="residues with their numbers"),
    ListColumn("row_names", TEXT, MSA_ROW, LENGTHS[MSA_ROW], long_name="names of the rows"),
    ListColumn("extra_row_names", TEXT, EXTRA_MSA_ROW, LENGTHS[EXTRA_MSA_ROW], long_name="names of the rows"),
)


class AlignmentSizes(NamedTuple):
    """What decides the shapes of one alignment's weights: rows and match columns that the model sees."""

    rows: int
    extra_rows: int
    residues: int


def alignment_sample(
    *,
    id: str,
    query: str,
    rows: int,
    extra_rows: int,
    input_sha256: str,
    columns: Sequence[int] | None = None,
    alignment_columns: int | None = None,
    numbers: Sequence[int | None] | None = None,
    row_names: Sequence[str] | None = None,
    extra_row_names: Sequence[str] | None = None,
) -> Samples:
    """The line of the sample table for one alignment.

    id: unique in the file. query: the target row, a letter for each of the R match columns that the model sees.
    columns: which these are, from 0, ascending; None = all. alignment_columns: those of the alignment; None = R.
    numbers: of the target's residues in these, None for a gap; None = match columns from 1. row_names,
    extra_row_names: "" for a row that stands for none; None = not known.
    """
    columns = range(len(query)) if columns is None else columns
    numbers = [column + 1 for column in columns] if numbers is None else numbers
    names = [
        f"gap{column + 1}" if letter == "-" else f"{letter}{number}"
        for letter, number, column in zip(query, numbers, columns, strict=True)
    ]
    sizes = {"length": len(query), "alignment_columns": alignment_columns or len(query)}
    sizes |= {"rows": rows, "extra_rows": extra_rows}
    others = {"row_names": row_names, "extra_row_names": extra_row_names}
    return Samples(
        {
            "id": [id],
            **{name: np.array([number], dtype=np.int32) for name, number in sizes.items()},
            "query": [query],
            "input_sha256": [input_sha256],
        },
        {
            "columns": [np.array(columns, dtype=np.int32)],
            "residue_names": [names],
            **{name: [None if each is None else list(each)] for name, each in others.items()},
        },
    )


def alignment_layout(
    sites: Sequence[AttentionSite], options: AttentionOptions, model_sha256: str
) -> FileLayout:
    """The layout of a file over alignments.

    Raises: BioattnError when a head is asked for that a site does not have; SettingsError for what is not stored
    of alignments.
    """
    if options.value_weighted or options.phases > 1:
        raise SettingsError(
            "value-weighted attention and phases are for promoters; leave value_weighted and phases out"
        )
    return FileLayout(
        inputs=ALIGNMENTS,
        model_sha256=model_sha256,
        columns=ALIGNMENT_COLUMNS,
        lists=ALIGNMENT_LISTS,
        groups=tuple(site_layout(site, options, per_sample=True) for site in sites),
    )
