"""First weights of the MSA/pair model's layers (AlphaFold 2 supplement, 1.11.4).

The last layer of a residual update starts at 0, so that an untrained block is the identity. Gates start with
weights 0 and bias 1; layers before a ReLU start as in He et al. 2015, the others as in LeCun et al. 1998.
"""

import math

import torch
from torch import Tensor, nn

from bioattn.models.evoformer.projection import Projection


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
