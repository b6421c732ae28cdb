"""The one attention operator: everything in bioattn that attends calls `attend`.

Weights that are handed over though they do not fit into memory come in tiles, of one head and some queries at a
time. Two buffers take all tiles: memory that is touched for the first time costs more than the weights in it,
and a tile can be written to a file while the next one is computed. As in `bioattn.attention.cpu.tiles` no
maximum is subtracted from the logits of tiles, and the sums tell whether that was right.

Shape suffixes: B sequences, H heads, Q queries, K keys, R queries of a tile, D channels of a head, V channels
of a value; leading axes (batch, treatment, head, …) are `...`.
"""

import math
from contextlib import nullcontext
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from bioattn.attention import cpu, kernels
from bioattn.attention.capture import hand_over, listener_for, substituted
from bioattn.attention.cpu.backward import attend_and_learn_on_cpu
from bioattn.attention.cpu.tiles import (
    LOG2_E,
    SUMS,
    attend_by_sequence,
    attend_on_cpu,
    torch_is_at_full_speed,
)
from bioattn.attention.score import DotScore, FusedForm, Score
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


MAX_TILE_ELEMENTS = 1 << 24
"""Largest (..., Q, K, D) tensor a scoring function without fused form may make at once (64 MB in float32)."""


def masked_logit(dtype: torch.dtype) -> float:
    """The logit of a masked key: finite, so that a row without any key gives uniform weights and never NaN
    (AlphaFold's rule), and so large that every real logit beside it vanishes."""
    return -3e4 if dtype == torch.float16 else -1e30


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    site: AttentionSite | None = None,
    tile: Tile | None = None,
    reader: Tensor | None = None,
) -> Tensor:
    """softmax(score(query, key) + bias) value, shape (..., Q, V).

    query: (..., Q, D). key: (..., K, D). value: (..., K, V). Their leading axes broadcast.
    mask: bool, broadcastable to (..., Q, K); True = this key may be attended. A row without any key attends to
    all keys alike.
    bias: added to the logits, broadcastable to (..., Q, K); without a mask a bias that many rows share is never
    copied for each.
    causal: a query attends to no key behind it. The last query and the last key are the same position, so that
    fewer queries than keys continue a sequence.
    site: with a listener (`bioattn.attention.capture`) the weights are computed explicitly and handed to it,
    otherwise no (..., Q, K) tensor is made where a fused kernel can avoid it. With `site.null_key` the last
    key is the null key: it takes part, and its weights are not handed on.
    tile: which slice of the site's outer axis this call attends; the listener is told.
    reader: (..., Q, V), what of a value each query adds to the prediction, for the contributions of a listener.
    """
    listener = listener_for(site)
    if listener is not None and listener.tiles is not None:
        assert site is not None
        form = score.fused_form(query, key)
        if form is not None and form.bias is None and query.shape[0] == 1:
            return attend_in_tiles(form, value, mask, bias, causal=causal, site=site, tiles=listener.tiles)
    if causal:
        queries, keys = query.shape[-2], key.shape[-2]
        plain = mask is None and bias is None and listener is None
        if plain and isinstance(score, DotScore) and (queries == keys or queries == 1):
            return _fused_kernel(score.fused_form(query, key), value, None, causal=queries > 1)
        if (
            queries > 1
        ):  # a single one is the last position: no key is behind it, as a null key is behind none
            null_key = int(site is not None and site.null_key)
            earlier = query.new_ones(queries, keys - null_key, dtype=torch.bool).tril(
                keys - null_key - queries
            )
            earlier = F.pad(earlier, (0, null_key), value=True)
            mask = earlier if mask is None else mask & earlier
    if listener is not None:
        assert site is not None
        form = score.fused_form(query, key)
        if listener.over_rows(site) and form is not None and kernels.fits(form, value, mask, bias):
            attended, maps = kernels.attend(form, value, mask, bias, listener.over_rows(site))
            listener.receiver.receive_reduced(site, maps, tile, len(query))
            return attended
        weights, attended = _attend_and_keep(query, key, value, score, mask, bias)
        others = substituted(site, weights, tile)
        if others is not None:
            weights, attended = others, others.to(value.dtype) @ value
        hand_over(site, weights, value, tile, reader)
        return attended
    if torch.is_grad_enabled() and torch.compiler.is_compiling():
        # A compiled graph cannot look whether some row has no key.
        form = score.fused_form(query, key)
        is_plain = form is not None and form.bias is None and query.dim() == 4
        if form is not None and is_plain and query.is_cuda and query.shape[-1] in FLEX_CHANNELS:
            return attend_flexibly(query, key, value, form.scale, mask, bias)
        if mask is not None:
            return _softmax(query, key, score, mask, bias) @ value
    elif torch.is_grad_enabled():
        # For a row without keys the fused backward pass computes weights again from the logarithm of their sum,
        # which beside a logit of -1e30 is lost: each of K masked keys would weigh 1 and not 1 / K.
        some_row_is_empty = mask is not None and not bool(mask.any(-1).all())
        if cpu.on_cpu(query) and (some_row_is_empty or (bias is not None and bias.requires_grad)):
            # In the CPU's pieces, where torch's kernel has no gradients (bias, row without keys).
            form = score.fused_form(query, key)
            if (
                form is not None
                and form.bias is None
                and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
            ):
                learned = attend_and_learn_on_cpu(
                    form.query, form.key, value, scale=form.scale, mask=mask, bias=bias
                )
                if learned is not None:
                    return learned
        if some_row_is_empty:
            return _softmax(query, key, score, mask, bias) @ value
    return _attend_fused(query, key, value, score, mask, bias)


def _attend_and_keep(
    query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    form = score.fused_form(query, key)
    if form is not None and form.bias is None and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        kept = query.new_empty(*query.shape[:-1], key.shape[-2], dtype=torch.float32)
        attended = attend_on_cpu(
            form.query, form.key, value, scale=form.scale, mask=mask, bias=bias, weights_BHQK=kept
        )
        if attended is not None:
            return kept, attended
    weights = _softmax(query, key, score, mask, bias)
    return weights, weights @ value


def attention_weights(
    query: Tensor,
    key: Tensor,
    *,
    score: Score,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    site: AttentionSite | None = None,
    tile: Tile | None = None,
    value: Tensor | None = None,
) -> Tensor:
    """The softmax weights (..., Q, K) themselves, for layers that need them; arguments as in `attend`.

    They are handed to whoever listens to `site`, without the query axis where the site has none (then Q is 1).
    value: (..., K, V), used only for the value-weighted attention of such a listener.
    """
    weights = _softmax(query, key, score, mask, bias)
    if site is not None:
        others = substituted(site, weights, tile)
        weights = weights if others is None else others
        hand_over(site, weights.squeeze(-2) if site.dims[-2] == "head" else weights, value, tile)
    return weights


def _softmax(query: Tensor, key: Tensor, score: Score, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    logits = score.logits(query, key)
    offset = _offset(mask, bias, logits.dtype)
    return torch.softmax(logits if offset is None else logits + offset, dim=-1)


def _offset(mask: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The sum of mask and bias that is added to the logits; None for nothing."""
    if mask is None:
        return None if bias is None else bias.to(dtype)
    masked = torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, masked_logit(dtype))
    # Added, not chosen: the gradient of a row without keys reaches the bias, as it does in AlphaFold.
    return masked if bias is None else bias.to(dtype) + masked


FLEX_CHANNELS = (16, 32, 64, 128)
"""Channels of a head that `flex_attention` has gradients for."""


def attend_flexibly(
    query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    """As `attend`, by torch's `flex_attention`: gradients of a bias that all sequences share are summed up in the
    kernel. query, key, value: (B, H, Q or K, D); mask: (B, 1, 1, K); bias: (H, Q, K)."""
    from torch.nn.attention.flex_attention import flex_attention

    if mask is None and bias is None:
        return F.scaled_dot_product_attention(query, key, value, scale=scale)
    mask_BK = None if mask is None else mask[:, 0, 0]
    some_B = None if mask_BK is None else mask_BK.any(-1)

    def score_mod(logit: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        if bias is not None:
            logit = logit + bias[h, q, k]
        if mask_BK is None or some_B is None:
            return logit
        # A row without keys: logits of 0 that pass gradients on, as they do where -1e30 swallows them.
        kept = torch.where(mask_BK[b, k], logit, logit - 1e30)
        return torch.where(some_B[b], kept, logit - logit.detach())

    attended: Tensor = flex_attention(query, key, value, score_mod=score_mod, scale=scale)
    return attended


def _attend_fused(
    query: Tensor, key: Tensor, value: Tensor, score: Score, mask: Tensor | None, bias: Tensor | None
) -> Tensor:
    form = score.fused_form(query, key)
    if form is None:
        return _attend_tiled(query, key, value, score, _offset(mask, bias, query.dtype))
    if form.bias is None and cpu.on_cpu(query):
        on_cpu = attend_by_sequence if torch_is_at_full_speed() else attend_on_cpu
        attended = on_cpu(form.query, form.key, value, scale=form.scale, mask=mask, bias=bias)
        if attended is not None:
            return attended
    elif form.bias is None and bias is not None:
        if query.dtype != torch.float32 and kernels.fits(form, value, mask, bias):
            return kernels.attend(form, value, mask, bias)[0]
        if mask is not None and mask.dim() == query.dim() == 4 and mask.shape[1:3] == (1, 1):
            form, mask = _with_a_channel_of_the_mask(form, mask), None
    offset = _offset(mask, bias, form.query.dtype)
    if form.bias is not None:
        offset = form.bias if offset is None else offset + form.bias
    return _fused_kernel(form, value, offset)


def _with_a_channel_of_the_mask(form: FusedForm, mask_B11K: Tensor) -> FusedForm:
    """Queries and keys whose product has the mask in it: added to a bias, it would make one for each sequence."""
    query, key = form.query, form.key
    ones = F.pad(query.new_ones(1), (0, WIDENING - 1)).expand(*query.shape[:-1], WIDENING)
    masked = torch.zeros_like(mask_B11K, dtype=key.dtype).masked_fill_(~mask_B11K, masked_logit(key.dtype))
    offset = F.pad(masked.mT, (0, WIDENING - 1)).expand(*key.shape[:-1], WIDENING)
    return form._replace(query=torch.cat([query, ones], -1), key=torch.cat([key, offset], -1))


WIDENING = 8
"""Channels that the mask takes: of 16 bits they are as wide as kernels load at once."""


def _fused_kernel(form: FusedForm, value: Tensor, offset: Tensor | None, *, causal: bool = False) -> Tensor:
    """torch's kernel; causal: for as many queries as keys, and without an offset."""
    batch: tuple[int, ...] = form.query.shape[:-2]
    if not batch == form.key.shape[:-2] == value.shape[:-2]:
        # torch's own function imports its compiler's shapes and SymPy, most of a second.
        batch = np.broadcast_shapes(batch, form.key.shape[:-2], value.shape[:-2])
    if offset is not None and len(batch) == 2:
        # Not expanded: torch copies an offset whose rows are not aligned, and then copies what all share once.
        offset = offset.expand(*offset.shape[:-1], form.key.shape[-2])[(None,) * (4 - offset.dim())]
    elif offset is not None:
        offset = _fold(offset.expand(*batch, form.query.shape[-2], form.key.shape[-2]), batch)
    # With a mask and gradients cuDNN's kernel can make NaN (github.com/pytorch/pytorch/issues/196678).
    doubtful = offset is not None and torch.is_grad_enabled() and not cpu.on_cpu(value)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]) if doubtful else nullcontext():
        # torch's kernels want exactly (batch, head, position, channel): fold further leading axes into one.
        attended = F.scaled_dot_product_attention(
            _fold(form.query, batch),
            _fold(form.key, batch),
            _fold(value, batch),
            attn_mask=offset,
            is_causal=causal,
            scale=form.scale,
        )
    return attended.reshape(*batch, *attended.shape[-2:])


def _fold(tensor: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Broadcast the leading axes to `batch` and fold all but the last of them into one."""
    tensor = tensor.expand(*batch, *tensor.shape[-2:])
    if len(batch) == 2:
        return tensor
    heads = batch[-1] if batch else 1
    return tensor.reshape(-1, heads, *tensor.shape[-2:])


def _attend_tiled(query: Tensor, key: Tensor, value: Tensor, score: Score, offset: Tensor | None) -> Tensor:
    """Explicit attention some queries at a time, recomputed in the backward pass, so memory stays bounded."""

    def attend_tile(query: Tensor, key: Tensor, value: Tensor, offset: Tensor | None) -> Tensor:
        logits = score.logits(query, key)
        return torch.softmax(logits if offset is None else logits + offset, dim=-1) @ value

    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    row_elements = math.prod(batch) * key.shape[-2] * key.shape[-1]
    tile = max(1, MAX_TILE_ELEMENTS // max(1, row_elements))
    num_queries = query.shape[-2]
    if tile >= num_queries:
        return attend_tile(query, key, value, offset)
    tiles = []
    for first in range(0, num_queries, tile):
        rows = slice(first, first + tile)
        tile_offset = offset
        if offset is not None and offset.dim() >= 2 and offset.shape[-2] > 1:
            tile_offset = offset[..., rows, :]
        if torch.is_grad_enabled():
            tiles.append(
                checkpoint(attend_tile, query[..., rows, :], key, value, tile_offset, use_reentrant=False)
            )
        else:
            tiles.append(attend_tile(query[..., rows, :], key, value, tile_offset))
    return torch.cat(tiles, dim=-2)
