"""Attention with a bias that all sequences share, by two kernels of Triton.

The first makes what flash attention makes (Dao et al. 2022), and takes the bias and the mask where they lie. The
second computes the logits again and, with their log-sum-exp, the mean or maximum of the weights over sequences: no
weights of one sequence are ever written. Both run on a CPU under TRITON_INTERPRET=1, if that is set before this
module is imported.

Shape suffixes: N sequences, H heads, Q queries, K keys, D channels of a head.
"""

# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import torch
import torch.nn.functional as F  # noqa: N812
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 64, 64
"""Queries and keys that a program holds: the fastest of five sizes on an H100, though none differs by a tenth."""
LEAST_CHANNELS = 16
"""The narrowest product of a tensor core."""
ALIGNED = 16
"""Kernels load several numbers at once where rows begin at multiples of so many."""


# fmt: off
@triton.jit
def _bias(bias, h, rows, keys, num_queries, stored_keys):
    """The bias of some queries and keys, of base 2."""
    inside = (rows[:, None] < num_queries) & (keys[None, :] < stored_keys)
    places = (h * num_queries + rows[:, None]) * stored_keys + keys[None, :]
    return tl.load(bias + places, inside, other=0.0).to(tl.float32) * 1.4426950408889634


@triton.jit
def _logits(
    query_RD, key, bias_RC, offset, n, h, keys, channels, key_n, key_h, key_k, live, num_keys, stored_keys,
    num_channels, scale, has_mask: tl.constexpr, precision: tl.constexpr,
):
    """Logits of base 2 of some queries and keys of one sequence; -inf behind the last key."""
    inside = (keys[None, :] < num_keys) & (channels[:, None] < num_channels)
    key_DC = tl.load(key + n * key_n + h * key_h + keys[None, :] * key_k + channels[:, None], inside, other=0.0)
    logits = tl.dot(query_RD, key_DC, input_precision=precision) * (scale * 1.4426950408889634) + bias_RC
    if has_mask:
        # A sequence without keys: all logits are 0 and no key is masked.
        logits = logits * live + tl.load(offset + n * stored_keys + keys, keys < stored_keys, other=0.0)[None, :]
    return tl.where(keys[None, :] < num_keys, logits, float("-inf"))


@triton.jit
def _attend(
    query, key, value, bias, offset, lives, attended, sums,
    query_n, query_h, query_q, key_n, key_h, key_k, value_n, value_h, value_k, attended_n, attended_h, attended_q,
    num_heads, num_queries, num_keys, stored_keys, num_channels, scale,
    has_bias: tl.constexpr, has_mask: tl.constexpr, precision: tl.constexpr,
    wide: tl.constexpr, num_rows: tl.constexpr, num_columns: tl.constexpr,
):
    rows, h = tl.program_id(0) * num_rows + tl.arange(0, num_rows), tl.program_id(1)
    n, channels = tl.program_id(2).to(tl.int64), tl.arange(0, wide)
    places = rows[:, None] * query_q + channels[None, :]
    inside = (rows[:, None] < num_queries) & (channels[None, :] < num_channels)
    query_RD = tl.load(query + n * query_n + h * query_h + places, inside, other=0.0)
    live = 1.0
    if has_mask:
        live = tl.load(lives + n)
    largest = tl.full([num_rows], float("-inf"), tl.float32)
    total = tl.zeros([num_rows], tl.float32)
    sum_RD = tl.zeros([num_rows, wide], tl.float32)
    for start in range(0, num_keys, num_columns):
        keys = start + tl.arange(0, num_columns)
        bias_RC = 0.0
        if has_bias:
            bias_RC = _bias(bias, h, rows, keys, num_queries, stored_keys)
        logits = _logits(
            query_RD, key, bias_RC, offset, n, h, keys, channels, key_n, key_h, key_k, live, num_keys,
            stored_keys, num_channels, scale, has_mask, precision,
        )
        new = tl.maximum(largest, tl.max(logits, 1))
        powers, shrunk = tl.math.exp2(logits - new[:, None]), tl.math.exp2(largest - new)
        places = keys[:, None] * value_k + channels[None, :]
        there = (keys[:, None] < num_keys) & (channels[None, :] < num_channels)
        value_CD = tl.load(value + n * value_n + h * value_h + places, there, other=0.0)
        part_RD = tl.dot(powers.to(value_CD.dtype), value_CD, input_precision=precision)
        total, sum_RD = total * shrunk + tl.sum(powers, 1), sum_RD * shrunk[:, None] + part_RD
        largest = new
    places = rows[:, None] * attended_q + channels[None, :]
    result_RD = (sum_RD / total[:, None]).to(attended.dtype.element_ty)
    tl.store(attended + n * attended_n + h * attended_h + places, result_RD, inside)
    sum_R = largest + tl.math.log2(total)
    tl.store(sums + (n * num_heads + h) * num_queries + rows, sum_R, rows < num_queries)


@triton.jit
def _over_sequences(
    query, key, bias, offset, lives, sums, maps,
    query_n, query_h, query_q, key_n, key_h, key_k,
    num_sequences, num_heads, num_queries, num_keys, stored_keys, num_channels, scale,
    has_bias: tl.constexpr, has_mask: tl.constexpr, precision: tl.constexpr, largest: tl.constexpr,
    wide: tl.constexpr, num_rows: tl.constexpr, num_columns: tl.constexpr,
):
    rows = tl.program_id(0) * num_rows + tl.arange(0, num_rows)
    keys, h = tl.program_id(1) * num_columns + tl.arange(0, num_columns), tl.program_id(2)
    channels = tl.arange(0, wide)
    places = rows[:, None] * query_q + channels[None, :]
    inside = (rows[:, None] < num_queries) & (channels[None, :] < num_channels)
    kept = tl.zeros([num_rows, num_columns], tl.float32)
    bias_RC = 0.0
    if has_bias:
        bias_RC = _bias(bias, h, rows, keys, num_queries, stored_keys)
    for sequence in range(0, num_sequences):
        n = tl.cast(sequence, tl.int64)
        query_RD = tl.load(query + n * query_n + h * query_h + places, inside, other=0.0)
        live = 1.0
        if has_mask:
            live = tl.load(lives + n)
        logits = _logits(
            query_RD, key, bias_RC, offset, n, h, keys, channels, key_n, key_h, key_k, live, num_keys,
            stored_keys, num_channels, scale, has_mask, precision,
        )
        sum_R = tl.load(sums + (n * num_heads + h) * num_queries + rows, rows < num_queries, other=0.0)
        weights = tl.math.exp2(logits - sum_R[:, None])
        if largest:
            kept = tl.maximum(kept, weights)
        else:
            kept += weights
    inside = (rows[:, None] < num_queries) & (keys[None, :] < num_keys)
    tl.store(maps + (h.to(tl.int64) * num_queries + rows[:, None]) * num_keys + keys[None, :], kept, inside)
# fmt: on


def _dense_channels(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


@torch.library.custom_op("bioattn::attend", mutates_args=())
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    scale: float,
    reduce: str,
) -> tuple[Tensor, Tensor]:
    """Attended values (N, H, Q, D), and weights over all sequences (H, Q, K), float32.

    query, key, value: (N, H, Q or K, D). bias: (H, Q, K), added to the logits of all sequences. mask: bool (N, K),
    True = may be attended; a sequence without keys attends to all alike. reduce: `sum` or `max` of the weights, or
    `` for none (then the maps are empty).
    """
    query, key, value = map(_dense_channels, (query, key, value))
    num_sequences, num_heads, num_queries, channels = query.shape
    num_keys = key.shape[2]
    attended = value.new_empty(num_sequences, num_queries, num_heads, channels).transpose(1, 2)
    sums = query.new_empty(num_sequences, num_heads, num_queries, dtype=torch.float32)
    padding = 0, -num_keys % ALIGNED
    given = query if bias is None else F.pad(bias, padding).contiguous()
    offset = lives = sums
    if mask is not None:
        some = mask.any(-1, keepdim=True)
        offset = F.pad(torch.where(mask | ~some, 0.0, -1e30).to(torch.float32), padding)
        lives = some.to(torch.float32)
    precision = "ieee" if query.dtype == torch.float32 else "tf32"
    sizes = num_heads, num_queries, num_keys, num_keys + padding[1], channels
    shapes = *sizes, scale, bias is not None, mask is not None, precision
    wide = max(LEAST_CHANNELS, triton.next_power_of_2(channels))
    tiles = {"wide": wide, "num_rows": ROWS, "num_columns": COLUMNS}
    strides = (*query.stride()[:3], *key.stride()[:3])
    _attend[triton.cdiv(num_queries, ROWS), num_heads, num_sequences](
        query, key, value, given, offset, lives, attended, sums,
        *strides, *value.stride()[:3], *attended.stride()[:3], *shapes, **tiles,
    )  # fmt: skip
    maps = query.new_empty((num_heads, num_queries, num_keys) if reduce else (0, 0, 0), dtype=torch.float32)
    if reduce:
        _over_sequences[triton.cdiv(num_queries, ROWS), triton.cdiv(num_keys, COLUMNS), num_heads](
            query, key, given, offset, lives, sums, maps,
            *strides, num_sequences, *shapes, largest=reduce == "max", **tiles,
        )  # fmt: skip
    return attended, maps


@attend.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    scale: float,
    reduce: str,
) -> tuple[Tensor, Tensor]:
    num_sequences, num_heads, num_queries, channels = query.shape
    shape = (num_heads, num_queries, key.shape[2]) if reduce else (0, 0, 0)
    attended = value.new_empty(num_sequences, num_queries, num_heads, channels).transpose(1, 2)
    return attended, query.new_empty(shape, dtype=torch.float32)
