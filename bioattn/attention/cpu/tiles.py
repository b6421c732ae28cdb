"""Attention on the CPU without gradients, one cache-sized piece of the weights at a time.

On processors that are not Intel's, torch's fused kernel multiplies small float32 matrices slowly, through MKL, and
gains nothing from bfloat16: 70 GFLOP/s in both, on an AMD core whose matrix products reach 240 and 470. Here a
piece of logits is computed, exponentiated and multiplied with the values while it stays in the cache. Three things
make it cheap: powers of 2 (torch's exp2 is four times faster than its exp); no maximum is subtracted, and the sums
tell afterwards whether that was right; and masked keys cost nothing per weight, because their values are set to 0
and left out of the sum. On Intel's processors torch's kernel is faster still (`attend_by_sequence`).

Shape suffixes: B sequences, H heads, Q queries, K keys, D channels of a head, V channels of a value.
"""

import math
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor

from bioattn.attention.cpu.matmul import matmul, suits_onednn

CACHE_BYTES = 1 << 20
"""Bytes of weights held at once; they fit the second-level cache of one core (1 MB on current servers)."""
MIN_MULTIPLICATIONS = {torch.float32: 1 << 21, torch.bfloat16: 1 << 17}
"""Per head and product; below, the fused kernel is faster than the calls made here (measured with 32 channels)."""
MASK_AND_BIAS = 4
"""So much earlier they pay with a mask and a bias, which the fused kernel wants added up for every sequence."""
SUMS = (2.0**-100, 2.0**100)
"""Range of sums of powers without loss: no power overflowed, and a vanished power is negligible."""
LOG2_E = math.log2(math.e)


def attend_on_cpu(
    query_BHQD: Tensor,
    key_BHKD: Tensor,
    value_BHKV: Tensor,
    *,
    scale: float,
    mask: Tensor | None,
    bias: Tensor | None,
    weights_BHQK: Tensor | None = None,
    sums_BHQ1: Tensor | None = None,
    least: int | None = None,
) -> Tensor | None:
    """softmax(scale · query keyᵀ + bias, where mask) value, shape (B, H, Q, V), or None where it does not apply:
    on other devices, with gradients, for small matrices, for logits beyond ±69, for a mask that differs between
    queries or a bias that differs between sequences.

    Leading axes broadcast: queries that all sequences share may have B = 1.
    mask: bool, (B or 1, 1, 1, K) if it is to suit. bias: (H or 1, Q or 1, K) if it is to suit. weights_BHQK,
    sums_BHQ1: where to write the weights and the sums of powers they were divided by, or None. least:
    multiplications per head from which on this is taken, None for MIN_MULTIPLICATIONS.
    """
    if torch.is_grad_enabled() or not suits(query_BHQD, key_BHKD, mask, bias, least=least):
        return None
    batch = np.broadcast_shapes(query_BHQD.shape[:2], key_BHKD.shape[:2], value_BHKV.shape[:2])
    query_BHQD, key_BHKD, value_BHKV = (
        t.expand(*batch, *t.shape[2:]) for t in (query_BHQD, key_BHKD, value_BHKV)
    )
    num_sequences, num_heads, num_queries, _ = query_BHQD.shape
    num_keys, dtype = key_BHKD.shape[2], query_BHQD.dtype
    query_BHQD = torch.mul(query_BHQD, scale * LOG2_E, out=query_BHQD.new_empty(query_BHQD.shape))
    key_BHKD = key_BHKD.contiguous()
    empty_B = [False] * num_sequences
    kept_BK1 = query_BHQD.new_ones(num_sequences, num_keys, 1)
    if mask is not None:
        kept_BK = mask[:, 0, 0].expand(num_sequences, -1)
        # A sequence without any key attends to all keys alike: no logits and no mask.
        empty = ~kept_BK.any(-1)
        empty_B = empty.tolist()
        kept_BK1 = (kept_BK | empty[:, None]).to(dtype)[:, :, None]
        value_BHKV = torch.mul(value_BHKV, kept_BK1[:, None], out=value_BHKV.new_empty(value_BHKV.shape))
    else:
        value_BHKV = value_BHKV.contiguous()
    # Heads lie next to channels: whoever joins them needs no copy.
    attended_BQHV = value_BHKV.new_empty(num_sequences, num_queries, num_heads, value_BHKV.shape[-1])
    attended_BHQV = attended_BQHV.transpose(1, 2)
    if sums_BHQ1 is None:
        sums_BHQ1 = query_BHQD.new_empty(num_sequences, num_heads, num_queries, 1)
    queries_at_once, heads_at_once = piece_size(query_BHQD, key_BHKD)
    for first in range(0, num_queries, queries_at_once):
        rows = slice(first, first + queries_at_once)
        query_BHRD, into_BHRV, sums_BHR1 = (t[:, :, rows] for t in (query_BHQD, attended_BHQV, sums_BHQ1))
        biases: tuple[Tensor | None, ...] = (None,) * num_heads
        if bias is not None:
            bias_HRK = bias.expand(num_heads, num_queries, num_keys)[:, rows].to(dtype)
            bias_HRK = torch.mul(bias_HRK, LOG2_E, out=bias_HRK.new_empty(bias_HRK.shape))
            biases = heads_of(bias_HRK, heads_at_once)
        for sequence in range(num_sequences):
            kept_K1 = kept_BK1[sequence]
            if empty_B[sequence]:
                query_BHRD[sequence] = 0
            weights = (
                heads_of(weights_BHQK[sequence, :, rows], heads_at_once) if weights_BHQK is not None else ()
            )
            for piece, (query, key, value, bias_RK, sums, into) in enumerate(
                zip(
                    heads_of(query_BHRD[sequence], heads_at_once),
                    heads_of(key_BHKD[sequence], heads_at_once),
                    heads_of(value_BHKV[sequence], heads_at_once),
                    biases,
                    heads_of(sums_BHR1[sequence], heads_at_once),
                    heads_of(into_BHRV[sequence], heads_at_once),
                    strict=False,
                )
            ):
                powers = matmul(query, key.mT, plus=None if empty_B[sequence] else bias_RK).exp2_()
                sums.copy_(powers @ kept_K1)
                torch.div(matmul(powers, value), sums, out=into)
                if weights:
                    # Not over `sums`: in bfloat16 rows would miss 1 by its rounding.
                    torch.mul(powers, kept_K1.T.to(weights[piece].dtype), out=weights[piece])
                    weights[piece].div_(weights[piece].sum(-1, keepdim=True))
    smallest, largest = torch.aminmax(sums_BHQ1)
    return attended_BHQV if bool((smallest >= SUMS[0]) & (largest <= SUMS[1])) else None


def attend_by_sequence(
    query_BHQD: Tensor,
    key_BHKD: Tensor,
    value_BHKV: Tensor,
    *,
    scale: float,
    mask: Tensor | None,
    bias: Tensor | None,
) -> Tensor | None:
    """As `attend_on_cpu` by torch's kernel, where mask and bias would have to be added up for all sequences at
    once; None where there is one of them at most, and where `attend_on_cpu` does not apply."""
    if mask is None or bias is None or torch.is_grad_enabled() or not suits(query_BHQD, key_BHKD, mask, bias):
        return None
    batch = np.broadcast_shapes(query_BHQD.shape[:2], key_BHKD.shape[:2], value_BHKV.shape[:2])
    query_BHQD, key_BHKD, value_BHKV = (
        t.expand(*batch, *t.shape[2:]) for t in (query_BHQD, key_BHKD, value_BHKV)
    )
    num_queries, num_keys, dtype = query_BHQD.shape[2], key_BHKD.shape[2], query_BHQD.dtype
    attended_BQHV = value_BHKV.new_empty(batch[0], num_queries, batch[1], value_BHKV.shape[-1])
    masked_BK = torch.zeros_like(mask[:, 0, 0], dtype=dtype).masked_fill_(~mask[:, 0, 0], -1e30)
    bias_HQK = bias.to(dtype).expand(batch[1], num_queries, num_keys)
    offset_HQK = bias_HQK.new_empty(bias_HQK.shape)
    for sequence, masked_K in enumerate(masked_BK.expand(batch[0], num_keys)):
        torch.add(bias_HQK, masked_K, out=offset_HQK)
        rows = slice(sequence, sequence + 1)
        attended_BQHV[rows] = F.scaled_dot_product_attention(
            query_BHQD[rows], key_BHKD[rows], value_BHKV[rows], attn_mask=offset_HQK[None], scale=scale
        ).transpose(1, 2)
    return attended_BQHV.transpose(1, 2)


@cache
def torch_is_at_full_speed() -> bool:
    """Whether torch's fused kernel multiplies as fast as the processor can: MKL does so on Intel's alone."""
    if not hasattr(torch.cpu, "get_capabilities"):  # younger than the oldest torch that is allowed
        return False
    return str(torch.cpu.get_capabilities().get("cpu_name")).startswith("Intel")


def suits(
    query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None, *, least: int | None = None
) -> bool:
    """Whether `attend_on_cpu` applies and is faster; arguments as there."""
    if least is None:
        least = MIN_MULTIPLICATIONS.get(query.dtype, 0)
        if mask is not None and bias is not None:
            least //= MASK_AND_BIAS
    return not (
        query.device.type != "cpu"
        or query.dim() != 4
        or query.numel() == 0
        or torch.is_autocast_enabled("cpu")
        or query.dtype not in MIN_MULTIPLICATIONS
        or not (mask is None or (mask.dim() == 4 and mask.shape[1:3] == (1, 1)))
        or not (bias is None or bias.dim() == 3)
        or query.shape[2:].numel() * key.shape[2] < least
    )


def heads_of(tensor_HXX: Tensor, heads_at_once: int) -> tuple[Tensor, ...]:
    """Pieces of `heads_at_once` heads; pieces of a single head lose the head axis."""
    return tensor_HXX.unbind() if heads_at_once == 1 else tensor_HXX.split(heads_at_once)


def piece_size(query_BHQD: Tensor, key_BHKD: Tensor) -> tuple[int, int]:
    """Number of queries and of heads whose weights are held together."""
    _, num_heads, num_queries, _ = query_BHQD.shape
    rows = max(1, CACHE_BYTES // (key_BHKD.shape[2] * query_BHQD.element_size()))
    queries_at_once = min(num_queries, rows)
    if suits_onednn(query_BHQD[0, 0, :queries_at_once], key_BHKD[0, 0]):
        return queries_at_once, 1  # oneDNN takes one matrix at a time
    return queries_at_once, min(num_heads, rows // queries_at_once)
