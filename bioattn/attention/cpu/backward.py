"""Gradients of attention on the CPU, one cache-sized piece of the weights at a time.

torch's fused kernel has no gradient for a bias, so attention with a learned bias would write all its weights down,
three times over. Here each piece is computed again from its logits and used for all gradients, and then dropped.

Shape suffixes: B sequences, H heads, Q queries, K keys, D channels of a head, V channels of a value.
"""

from typing import Any

import torch
from torch import Tensor

from bioattn.attention.cpu.matmul import matmul
from bioattn.attention.cpu.tiles import LOG2_E, attend_on_cpu, heads_of, piece_size, suits

MIN_LEARNING_MULTIPLICATIONS = 1 << 17
"""Least multiplications per head and product, as in `tiles`; below, autograd through whole weights is faster."""


def attend_and_learn_on_cpu(
    query_BHQD: Tensor,
    key_BHKD: Tensor,
    value_BHKV: Tensor,
    *,
    scale: float,
    mask: Tensor | None,
    bias: Tensor | None,
) -> Tensor | None:
    """As `attend_on_cpu`, with gradients for queries, keys, values and bias; None where it does not apply."""
    if not suits(query_BHQD, key_BHKD, mask, bias, least=MIN_LEARNING_MULTIPLICATIONS):
        return None
    sums_BHQ1 = query_BHQD.new_empty(*query_BHQD.shape[:3], 1)
    with torch.no_grad():
        attended = attend_on_cpu(
            query_BHQD,
            key_BHKD,
            value_BHKV,
            scale=scale,
            mask=mask,
            bias=bias,
            sums_BHQ1=sums_BHQ1,
            least=MIN_LEARNING_MULTIPLICATIONS,
        )
    if attended is None:
        return None
    result: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
        query_BHQD, key_BHKD, value_BHKV, bias, mask, attended, sums_BHQ1, scale
    )
    return result


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        mask: Tensor | None,
        attended: Tensor,
        sums: Tensor,
        scale: float,
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, bias, mask, attended, sums)
        ctx.scale = scale
        return attended.view_as(attended)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_BHQV: Tensor) -> tuple[Tensor | None, ...]:
        query_BHQD, key_BHKD, value_BHKV, bias, mask, attended_BHQV, sums_BHQ1 = ctx.saved_tensors
        num_sequences, num_heads, num_queries, _ = query_BHQD.shape
        num_keys, dtype = key_BHKD.shape[2], query_BHQD.dtype
        gradient_BHQV = gradient_BHQV.contiguous()
        query_BHQD, key_BHKD, value_BHKV = (t.contiguous() for t in (query_BHQD, key_BHKD, value_BHKV))
        scaled_BHQD = query_BHQD * (ctx.scale * LOG2_E)
        mean_BHQ1 = (gradient_BHQV * attended_BHQV).sum(-1, keepdim=True)
        empty_B = [False] * num_sequences
        kept_B1K = None
        if mask is not None:
            kept_BK = mask[:, 0, 0].expand(num_sequences, -1)
            # Without any key all are attended alike. Gradients reach queries and keys all the same, as they do
            # where a mask is a large number added to the logits.
            empty = ~kept_BK.any(-1)
            empty_B = empty.tolist()
            kept_B1K = (kept_BK | empty[:, None]).to(dtype).unsqueeze(1)
        query_gradient, key_gradient, value_gradient = (
            torch.zeros_like(t) for t in (query_BHQD, key_BHKD, value_BHKV)
        )
        bias_HQK = bias_gradient = None
        if bias is not None:
            bias_HQK = bias.to(dtype).expand(num_heads, num_queries, num_keys).mul(LOG2_E).contiguous()
            bias_gradient = torch.zeros_like(bias_HQK)
        queries_at_once, heads_at_once = piece_size(query_BHQD, key_BHKD)
        for first in range(0, num_queries, queries_at_once):
            rows = slice(first, first + queries_at_once)
            for sequence in range(num_sequences):
                empty_here = empty_B[sequence]
                pieces = zip(
                    *(
                        heads_of(t[sequence, :, rows], heads_at_once)
                        for t in (
                            scaled_BHQD,
                            query_BHQD,
                            gradient_BHQV,
                            sums_BHQ1,
                            mean_BHQ1,
                            query_gradient,
                        )
                    ),
                    *(
                        heads_of(t[sequence], heads_at_once)
                        for t in (key_BHKD, value_BHKV, key_gradient, value_gradient)
                    ),
                    *(
                        [None] * num_heads if t is None else heads_of(t[:, rows], heads_at_once)
                        for t in (bias_HQK, bias_gradient)
                    ),
                    strict=False,
                )
                for (
                    scaled,
                    query,
                    gradient,
                    sums,
                    mean,
                    to_query,
                    key,
                    value,
                    to_key,
                    to_value,
                    plus,
                    to_plus,
                ) in pieces:
                    scored = torch.zeros_like(scaled) if empty_here else scaled
                    weights = matmul(scored, key.mT, plus=None if empty_here else plus).exp2_()
                    if kept_B1K is not None:
                        weights.mul_(kept_B1K[sequence])
                    weights.div_(sums)
                    to_value += matmul(weights.mT, gradient)
                    logit_gradient = matmul(gradient, value.mT).sub_(mean).mul_(weights)
                    to_query += matmul(logit_gradient, key)
                    to_key += matmul(logit_gradient.mT, query)
                    if to_plus is not None:
                        to_plus += logit_gradient
        query_gradient.mul_(ctx.scale)
        key_gradient.mul_(ctx.scale)
        if bias is not None and bias_gradient is not None:
            bias_gradient = bias_gradient.sum_to_size(bias.shape).to(bias.dtype)
        return query_gradient, key_gradient, value_gradient, bias_gradient, None, None, None, None
