"""How much memory a model needs for an alignment: said before it is run, kept low where little is free, refused
where there is too little.

Shapes: S clustered MSA rows, E extra MSA rows, R columns.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from bioattn.alignments.couplings import coupling_bytes
from bioattn.errors import BioattnError
from bioattn.models.evoformer.attention import TILE_ELEMENTS, TILE_LEAST, WEIGHTS_AT_ONCE
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.layers import tiles_of_at_most
from bioattn.models.evoformer.sites import AlignmentSizes
from bioattn.system.memory import free_memory
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")

FIXED_BYTES = 80_000_000
"""What torch and its threads take whatever the sizes."""
MARGIN = 1.2
"""The estimate over the terms counted."""
SMALL_TILES = (64, 4, 1)
"""Rows or residues at a time that are tried where memory is short."""
_TILE_FLOATS = 8
"""Numbers a layer holds for each number of a tile: projections, attention, update."""


def estimate_memory(
    config: EvoformerConfig,
    sizes: AlignmentSizes,
    *,
    chunk: int | None = None,
    num_templates: int = 0,
    attention: bool = False,
    device: str = "cpu",
) -> int:
    """Bytes that a run needs beside the model's parameters at its highest point, counted generously.

    A model with pair features has its highest point there or before it runs, in the covariances.

    sizes: rows of templates among those of the MSA. chunk: rows or residues that layers take at a time, None = the
    sizes that are fastest. attention: whether weights are listened to.
    """
    rows, extra, columns = sizes
    pairs = columns * columns
    msa, pair = rows * columns * config.msa_channels, pairs * config.pair_channels
    # Numbers per cell that wait for a sum over rows: factors of the outer product; of tied rows what is centred.
    factors, extra_factors = (
        columns * (4 * channels if config.tied_row_heads else 3 * config.outer_product_channels)
        for channels in (config.msa_channels, config.extra_msa_channels)
    )
    whole = device != "cpu"

    def tile(number: int, width: int, least: int = 1) -> int:
        """How many of `number` rows of `width` numbers a layer takes at a time, `least` or more if it may."""
        fastest = number if whole else max(least, TILE_ELEMENTS // max(1, width))
        return max(1, min(number, fastest, chunk or number))

    msa_rows = tile(rows, columns * config.msa_channels, TILE_LEAST)
    msa_columns = tile(columns, rows * config.msa_channels)
    pair_rows = tile(columns, columns * config.pair_channels, TILE_LEAST)
    work = [
        factors * rows,
        _TILE_FLOATS * msa_rows * columns * config.msa_channels,
        _TILE_FLOATS * msa_columns * rows * config.msa_channels,
        _TILE_FLOATS * pair_rows * columns * config.pair_channels,
        2 * pairs * config.triangle_multiplication_channels,
    ]
    if whole and not config.tied_row_heads:
        work.append(tile(columns, columns) * columns * config.outer_product_channels**2)
    weights = 0
    if attention:
        heads = max(msa_rows * config.msa_heads, pair_rows * config.pair_heads)
        kept = max(4 * heads * pairs, msa_columns * config.msa_heads * rows * rows)
        weights = min(kept, 4 * max(WEIGHTS_AT_ONCE, config.msa_heads * max(pairs, rows * rows)))
    # When everything is read off the representations.
    per_pair = config.pair_channels + 2 * config.distogram_bins + 64 * config.aligned_error_head
    if config.structure_module is not None:
        per_pair += config.pair_channels + 4 * config.structure_module.num_heads
    stages = [2 * msa + pair, msa + pair + max(work), msa + per_pair * pairs]
    features = 2 * rows * columns * config.msa_features
    if num_templates and config.templates is not None:
        stages.append(msa + pair + (2 * num_templates + 1) * pairs * config.templates.channels + max(work))
    if config.num_extra_msa_blocks:
        width = extra * config.extra_msa_channels
        tiled = _TILE_FLOATS * tile(columns, width) * width
        stages.append(msa + pair + columns * width + max(extra_factors * extra, tiled))
        features += 8 * extra * columns
    needed = MARGIN * 4 * (max(stages) + features + weights + pairs * config.pair_features)
    return FIXED_BYTES + max(int(needed), coupling_bytes(columns) if config.pair_features else 0)


@contextmanager
def plan_memory(
    config: EvoformerConfig,
    device: torch.device,
    sizes: AlignmentSizes,
    chunk: int | None,
    *,
    num_templates: int = 0,
    attention: bool,
    source: str,
) -> Iterator[None]:
    """Say how much memory a run will need; run the body with layers that take as many rows at a time as fit.

    chunk: at most so many, None = as memory allows.

    Raises: BioattnError with the estimate when there is too little memory whatever the size of tiles.
    """
    free = int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else free_memory()
    choices = [chunk, *SMALL_TILES] if chunk is None else [chunk]
    needed, estimate = 0, partial(estimate_memory, config, sizes, device=device.type)
    for choice in choices:
        needed = estimate(chunk=choice, num_templates=num_templates, attention=attention)
        if free is None or needed <= free:
            room = "" if free is None else f", {human_bytes(free)} are free"
            tiles = (
                f": layers take {counted(choice, 'row')} at a time (--chunk)" if choice and not chunk else ""
            )
            LOGGER.info(f"needs about {human_bytes(needed)} of memory beside the model{room}{tiles}")
            with tiles_of_at_most(choice):
                yield
            return
    assert free is not None
    least = sizes._replace(rows=1, extra_rows=1)
    fewer_rows_help = estimate_memory(config, least, chunk=choices[-1], device=device.type) <= free
    raise BioattnError(
        f"{source}: {sizes.residues:,} columns with {sizes.rows:,} + {sizes.extra_rows:,} rows need about "
        f"{human_bytes(needed)} of memory beside the model, {human_bytes(free)} are free; "
        + (
            "give a smaller --max-msa-clusters, or max_extra_msa in [inputs] of --config, or cut the alignment "
            "into domains"
            if fewer_rows_help
            else "the pairs of columns alone are too many: cut the alignment into domains, or take a larger "
            "machine"
        )
    )
