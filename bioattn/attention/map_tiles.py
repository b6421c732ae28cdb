"""Weights that are handed over though they do not fit into memory: of one head and some queries at a time.

Two buffers take all tiles: memory that is touched for the first time costs more than the weights in it, and a tile
can be written to a file while the next one is computed. As in `bioattn.attention.cpu.tiles` no maximum
is subtracted from the logits, and the sums tell whether that was right.

Shape suffixes: B sequences (one), H heads, Q queries, K keys, R queries of a tile, D channels of a head,
V channels of a value.
"""

import math
from itertools import product

import torch
from torch import Tensor

from bioattn.attention.capture import hand_over
from bioattn.attention.cpu.tiles import LOG2_E, SUMS
from bioattn.attention.score import FusedForm
from bioattn.attention.site import AttentionSite, MapTiles, Tile

TILE_BYTES = 1 << 22
"""Bytes of a tile: a chunk of an attention file (`bioattn.store.schema`), and no more than a cache holds."""


def attend_in_tiles(
    form: FusedForm,
    value_BHKV: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    *,
    causal: bool,
    site: AttentionSite,
    tiles: MapTiles,
) -> Tensor:
    """The attended values (1, H, Q, V), without gradients; the listener to `site` gets the weights in `tiles`.

    form: of one sequence and without a bias of its own; mask, bias and causal: as
    `bioattn.attention.operator.attend` takes them.
    """
    query_BHQD, key_BHKD = form.query * (form.scale * LOG2_E), form.key
    _, num_heads, num_queries, _ = query_BHQD.shape
    num_keys = key_BHKD.shape[2]
    whole = (1, num_heads, num_queries, num_keys)
    mask_HQK = None if mask is None else mask.expand(whole)[0]
    bias_HQK = None if bias is None else bias.expand(whole)[0]
    attended_BQHV = value_BHKV.new_empty(1, num_queries, num_heads, value_BHKV.shape[-1])
    most = max(1, TILE_BYTES // (num_keys * query_BHQD.element_size()))
    step = math.ceil(num_queries / math.ceil(num_queries / most))
    buffers_2RK = query_BHQD.new_empty(2, step, num_keys)
    wanted = site.heads if tiles.heads is None else tiles.heads
    heads = [*wanted, *(head for head in site.heads if head not in wanted)]
    starts = range(0, num_queries, step)
    order = product(starts, heads) if tiles.queries_first else ((s, h) for h, s in product(heads, starts))
    handed_over = 0
    for start, head in order:
        place, rows = site.heads.index(head), slice(start, min(start + step, num_queries))
        # The last query and the last key are the same position.
        diagonal = start + num_keys - num_queries if causal else num_keys
        seen = slice(0, min(diagonal + rows.stop - start, num_keys))
        # Tiles that nobody gets leave the buffer of the last one that somebody got alone.
        tile_RK = buffers_2RK[handed_over % 2, : rows.stop - start]
        tile_RK[:, seen.stop :] = 0
        _weights(
            tile_RK[:, seen],
            query_BHQD[0, place, rows],
            key_BHKD[0, place, seen],
            None if mask_HQK is None else mask_HQK[place, rows, seen],
            None if bias_HQK is None else bias_HQK[place, rows, seen],
            diagonal,
        )
        torch.mm(tile_RK[:, seen], value_BHKV[0, place, seen], out=attended_BQHV[0, rows, place])
        if head in wanted:
            tile = Tile("query", start, num_queries, head)
            hand_over(site, tile_RK[None, None], value_BHKV[:, place : place + 1], tile)
            handed_over += 1
    return attended_BQHV.transpose(1, 2)


def _weights(
    into_RK: Tensor,
    query_RD: Tensor,
    key_KD: Tensor,
    mask_RK: Tensor | None,
    bias_RK: Tensor | None,
    diagonal: int,
) -> None:
    """Fill `into_RK` with weights.

    query_RD: times the scale and log2 e. diagonal: the last key that the first query sees.
    """
    masked = torch.finfo(into_RK.dtype).min

    def logits() -> Tensor:
        torch.mm(query_RD, key_KD.T, out=into_RK)
        if bias_RK is not None:
            into_RK.add_(bias_RK, alpha=LOG2_E)
        return into_RK if mask_RK is None else into_RK.masked_fill_(~mask_RK, masked)

    logits().exp2_()
    if diagonal < into_RK.shape[1]:
        into_RK.tril_(diagonal)
    sums_R1 = into_RK.sum(-1, keepdim=True)
    smallest, largest = torch.aminmax(sums_R1)
    if bool((smallest >= SUMS[0]) & (largest <= SUMS[1])):
        into_RK.mul_(sums_R1.reciprocal_())
        return
    later_RK = torch.ones_like(into_RK, dtype=torch.bool).triu_(diagonal + 1)
    torch.softmax(logits().mul_(1 / LOG2_E).masked_fill_(later_RK, masked), -1, out=into_RK)
