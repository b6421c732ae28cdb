"""Linear layers of the MSA/pair model, and layers computed some rows at a time.

Linear layers start as in AlphaFold 2 (supplement, 1.11.4): the last layer of a residual update at 0, so that an
untrained block is the identity; gates with weights 0 and bias 1; layers before a ReLU as in He et al. 2015, the
others as in LeCun et al. 1998.

Most layers pass a function of a tile, some rows of what they update. On a CPU without gradients tiles are computed
one after another, and updates are made in place. With gradients the same is done, and only the layer's inputs are
kept: the backward pass computes each tile again with autograd and takes its gradients at once. Intermediates exist
for one tile only and stay in the cache, which pays for computing them twice. An accelerator and a compiled graph
take a layer whole, unless `tiles_of_at_most` says how much fits into memory.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bioattn.attention import cpu
from bioattn.attention.capture import no_capture
from bioattn.attention.cpu import matmul


class Projection(nn.Linear):
    """A linear layer that multiplies in the type of its weight, with the fastest available product."""

    if TYPE_CHECKING:

        def __call__(self, input: Tensor) -> Tensor: ...

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) → (..., outputs), in the weight's type."""
        return matmul.linear(input.to(self.weight.dtype), self.weight, self.bias)


def use_precision(module: nn.Module, dtype: torch.dtype) -> None:
    """Hold the weights of `module`'s projections in `dtype` (float32 or bfloat16), in place.

    Every layer multiplies in the type of its weights. LayerNorm and the representations between blocks stay
    float32; only the updates are rounded.
    """
    for part in module.modules():
        if not isinstance(part, nn.LayerNorm):
            for parameter in part.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)


def linear(inputs: int, outputs: int, *, bias: bool = True) -> Projection:
    """A linear layer with LeCun's first weights and bias 0."""
    layer = Projection(inputs, outputs, bias=bias)
    with torch.no_grad():
        nn.init.trunc_normal_(layer.weight, std=math.sqrt(1 / inputs))
        if bias:
            layer.bias.zero_()
    return layer


def final_linear(inputs: int, outputs: int) -> Projection:
    """A linear layer with weights and bias 0."""
    layer = Projection(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def relu_linear(inputs: int, outputs: int) -> Projection:
    """A linear layer before a ReLU, with He's first weights and bias 0."""
    layer = linear(inputs, outputs)
    with torch.no_grad():
        nn.init.trunc_normal_(layer.weight, std=math.sqrt(2 / inputs))
    return layer


ACCELERATOR_FACTOR = 64
"""Larger tiles of cells keep a GPU busy: 32 MB of a float32 state instead of half of one."""

LARGEST_TILE: ContextVar[int | None] = ContextVar("largest_tile", default=None)
"""What `tiles_of_at_most` lets; None = any number of rows."""


@contextmanager
def tiles_of_at_most(rows: int | None) -> Iterator[None]:
    """Inside the `with`, layers take at most `rows` rows or residues at a time; None = no fewer than before.

    Transitions, which treat cells one by one, keep the size that suits a CPU. Fewer rows need less memory and more
    time; results are equal up to the order of sums.
    """
    token = LARGEST_TILE.set(min(filter(None, (rows, LARGEST_TILE.get())), default=None))
    try:
        yield
    finally:
        LARGEST_TILE.reset(token)


def tiles(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` rows that cover `total` rows in order."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def rows_per_tile(state: Tensor, elements: int, least: int = 1) -> int:
    """Rows of the first axis that have about `elements` numbers together, `least` or more of them, but no more
    than `tiles_of_at_most` lets. Where that says nothing, an accelerator and a compiled graph take all.

    `elements` suits the caches of a CPU.
    """
    largest = None if torch.compiler.is_compiling() else LARGEST_TILE.get()
    if not cpu.on_cpu(state) and largest is None:
        return len(state)
    rows = max(least, elements // max(1, state[:1].numel()))
    if not cpu.on_cpu(state):
        return ACCELERATOR_FACTOR * rows if state.dim() < 3 else largest or rows
    return rows if state.dim() < 3 else min(rows, largest or rows)


def unless_full(mask: Tensor) -> Tensor | None:
    """The mask, or None where it masks nothing: what layers need not look at costs an accelerator nothing."""
    return None if bool((mask > 0).all()) else mask


MIN_RECOMPUTED_ELEMENTS = 1 << 20
"""Least elements of the first tensor; a smaller one goes through autograd whole, as its intermediates are small (a
model of 32 channels trains 1.5 times faster on crops of 64 residues)."""

TileFunction = Callable[..., Tensor]
"""(rows, *tiles of the sliced tensors, *whole tensors) → the result for those rows. It must depend on nothing else
that has gradients but the layer's parameters, and must not change what it is given."""


def tiled(
    function: TileFunction,
    elements: int,
    *,
    sliced: Sequence[Tensor],
    whole: Sequence[Tensor] = (),
    parameters: Iterable[nn.Parameter] = (),
    least: int = 1,
    new_output: Callable[[], Tensor] | None = None,
) -> Tensor:
    """sliced[0] + function, some rows of the first axis at a time; in place without gradients.

    elements: how many numbers of sliced[0] make a tile. sliced: tensors cut along their first axis. whole:
    tensors that each tile gets whole. parameters: all that `function` uses. least: rows that a tile has at least.
    new_output: makes an empty tensor, which the function alone fills: nothing is added to.
    """
    state = sliced[0]
    size = rows_per_tile(state, elements, least)
    whole_at_once = size >= len(state) and not cpu.on_cpu(state)
    if whole_at_once or (torch.is_grad_enabled() and state.numel() < MIN_RECOMPUTED_ELEMENTS):
        result = function(slice(0, len(state)), *sliced, *whole)
        if new_output is not None:
            return result
        in_place = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
        return state.add_(result) if in_place else state + result
    if not torch.is_grad_enabled():
        output = state if new_output is None else new_output()
        for rows in tiles(len(output), size):
            result = function(rows, *(tensor[rows] for tensor in sliced), *whole)
            if new_output is None:
                part = output[rows]
                part += result
            else:
                output[rows] = result
        return output
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    recomputed: Tensor = _Tiled.apply(  # type: ignore[no-untyped-call]
        function, size, new_output, len(sliced), wanted, *sliced, *whole, *wanted
    )
    return recomputed


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: TileFunction,
        size: int,
        new_output: Callable[[], Tensor] | None,
        num_sliced: int,
        parameters: list[nn.Parameter],
        *tensors: Tensor,
    ) -> Tensor:
        inputs = tensors[: len(tensors) - len(parameters)]
        ctx.save_for_backward(*inputs)
        ctx.function, ctx.size, ctx.num_sliced, ctx.parameters = function, size, num_sliced, parameters
        ctx.residual = new_output is None
        device = inputs[0].device.type
        ctx.autocast = (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device))
        sliced, whole = inputs[:num_sliced], inputs[num_sliced:]
        output = sliced[0].clone() if new_output is None else new_output()
        for rows in tiles(len(output), size):
            # Gradients are off here.
            result = function(rows, *(tensor[rows] for tensor in sliced), *whole)
            if new_output is None:
                output[rows] += result
            else:
                output[rows] = result
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, parameters = ctx.saved_tensors, ctx.parameters
        wanted = ctx.needs_input_grad[5 : 5 + len(inputs)]
        sliced, whole = inputs[: ctx.num_sliced], inputs[ctx.num_sliced :]
        whole_leaves = [
            tensor.detach().requires_grad_(need)
            for tensor, need in zip(whole, wanted[ctx.num_sliced :], strict=True)
        ]
        gradients: list[Tensor | None] = [None] * (len(inputs) + len(parameters))
        device, dtype, enabled = ctx.autocast
        for rows in tiles(len(gradient), ctx.size):
            leaves = [
                tensor[rows].detach().requires_grad_(need)
                for tensor, need in zip(sliced, wanted[: ctx.num_sliced], strict=True)
            ]
            # A listener has heard the forward pass.
            with torch.enable_grad(), no_capture(), torch.autocast(device, dtype=dtype, enabled=enabled):
                result = ctx.function(rows, *leaves, *whole_leaves)
            targets = [*leaves, *whole_leaves, *parameters]
            places = [place for place, target in enumerate(targets) if target.requires_grad]
            parts = torch.autograd.grad(
                result,
                [targets[place] for place in places],
                gradient[rows].to(result.dtype),
                allow_unused=True,
            )
            for place, part in zip(places, parts, strict=True):
                total = gradients[place]
                if part is None:
                    continue
                if place < ctx.num_sliced:
                    if total is None:
                        total = gradients[place] = torch.zeros_like(inputs[place])
                    total[rows] = part
                else:
                    gradients[place] = part if total is None else total + part
        if ctx.residual and wanted[0]:
            first = gradients[0]
            gradients[0] = gradient if first is None else first.add_(gradient)
        return (None, None, None, None, None, *gradients)
