"""Matrix products in float32 on the CPU, by oneDNN where PyTorch would ask MKL.

Shape suffixes: B batch, M and N rows and columns of a product, K the summed axis.

On processors that are not Intel's, MKL multiplies float32 with half the vector width the processor has: on an AMD
EPYC with AVX-512 torch.mm reaches 113 GFLOP/s a core and oneDNN, which PyTorch carries for convolutions and for
bfloat16, 240. `linear` and `matmul` take oneDNN where it is present, where a trial agrees with torch, and where
the product is large enough to pay for the call; otherwise they are torch's own. Inside
`torch.backends.mkldnn.flags(enabled=False)` they are torch's own too.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor

MIN_MULTIPLICATIONS = 1_000_000
"""Smaller products are left to torch: a call of oneDNN costs 10 µs more."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weightᵀ + bias: x (..., K), weight (N, K), bias (N,) → (..., N); as torch.nn.functional.linear."""
    if not suits_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, weight, bias)):
        product: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return product
    return _onednn_linear(x, weight, bias)


def matmul(left: Tensor, right: Tensor, plus: Tensor | None = None) -> Tensor:
    """left right + plus without gradients: (M, K) (K, N) + (M, N), optionally with a leading batch axis.

    `right` may be a transposed view. Only single matrices go to oneDNN.
    """
    if left.dim() == 2 and not torch.is_grad_enabled() and suits_onednn(left, right.T):
        return _onednn_linear(left, right.T, plus=plus)
    if plus is None:
        return left @ right
    return torch.addmm(plus, left, right) if left.dim() == 2 else torch.baddbmm(plus, left, right)


class _Linear(torch.autograd.Function):
    """A linear map whose backward products use oneDNN as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _onednn_linear(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        gradient_MN, x_MK = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
        x_gradient = weight_gradient = bias_gradient = None
        if ctx.needs_input_grad[0]:
            x_gradient = _onednn_linear(gradient_MN, weight.T).view(x.shape)
        if ctx.needs_input_grad[1]:
            # oneDNN repacks a transposed left factor badly, so it gets a copy: of the smaller one, unless the
            # weight is itself a transposed view, whose gradient is best one too.
            transposed = not weight.is_contiguous() and weight.T.is_contiguous()
            if transposed or gradient_MN.shape[1] > x_MK.shape[1]:
                weight_gradient = _onednn_linear(x_MK.T.contiguous(), gradient_MN.T).T
            else:
                weight_gradient = _onednn_linear(gradient_MN.T.contiguous(), x_MK.T)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            bias_gradient = gradient_MN.sum(0)
        return x_gradient, weight_gradient, bias_gradient


def suits_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether x weightᵀ goes to oneDNN: x (..., K), weight (N, K)."""
    return (
        x.dtype == torch.float32
        and weight.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * weight.shape[-2] >= MIN_MULTIPLICATIONS
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and bool(getattr(torch.backends.mkldnn, "enabled", True))
        and _onednn_agrees()
    )


def _onednn_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, plus: Tensor | None = None
) -> Tensor:
    # A weight that is neither dense nor a dense matrix transposed would run a reference loop, 1000 times slower.
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        weight = weight.contiguous()
    operator = torch.ops.mkldnn._linear_pointwise
    product: Tensor = (
        operator(x, weight, bias, "none", [], "")
        if plus is None
        else operator.binary(x, plus, weight, bias, "add")
    )
    return product


@cache
def _onednn_agrees() -> bool:
    """Whether this PyTorch has the oneDNN operator and it multiplies as torch does, in all layouts used here."""
    if not torch.backends.mkldnn.is_available():
        return False
    with torch.no_grad():
        # Exact in any order of summation: products of small integers.
        x = (torch.arange(24 * 40) % 7 - 3.0).view(24, 40)
        weight = (torch.arange(32 * 40) % 5 - 2.0).view(32, 40)
        bias = torch.arange(32.0)
        try:
            results = [
                _onednn_linear(x, weight, bias),
                _onednn_linear(x.T.contiguous().T, weight.T.contiguous().T, bias),
                _onednn_linear(x.view(2, 12, 40), weight, bias).view(24, 32),
                _onednn_linear(x, weight, plus=bias.expand(24, 32).contiguous()),
            ]
        except (AttributeError, RuntimeError, TypeError):
            return False
        return all(torch.equal(result, F.linear(x, weight, bias)) for result in results)
