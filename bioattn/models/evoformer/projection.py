"""Linear layers of the MSA/pair model: product, precision, and first weights (AlphaFold 2 supplement, 1.11.4).

The last layer of a residual update starts at 0, so that an untrained block is the identity. Gates start with
weights 0 and bias 1; layers before a ReLU start as in He et al. 2015, the others as in LeCun et al. 1998.
"""

import math

import torch
from torch import Tensor, nn

from bioattn.attention.cpu import matmul


class Projection(nn.Linear):
    """A linear layer that multiplies in the type of its weight, with the fastest available product."""

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


def lecun_normal_(weight: Tensor) -> None:
    """Fill weight (outputs, inputs) from a normal distribution of variance 1 / inputs."""
    nn.init.trunc_normal_(weight, std=math.sqrt(1 / weight.shape[1]))


def he_normal_(weight: Tensor) -> None:
    """Fill weight (outputs, inputs) from a normal distribution of variance 2 / inputs."""
    nn.init.trunc_normal_(weight, std=math.sqrt(2 / weight.shape[1]))


def linear(inputs: int, outputs: int, *, bias: bool = True) -> Projection:
    """A linear layer with LeCun's first weights and bias 0."""
    layer = Projection(inputs, outputs, bias=bias)
    with torch.no_grad():
        lecun_normal_(layer.weight)
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
        he_normal_(layer.weight)
    return layer
