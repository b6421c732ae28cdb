"""Precision of the trunk's matrix products."""

import torch
from torch import nn


def use_precision(module: nn.Module, dtype: torch.dtype) -> None:
    """Hold the weights of `module`'s projections in `dtype` (float32 or bfloat16), in place.

    Every layer multiplies in the type of its weights. LayerNorm and the representations between blocks stay
    float32; only the updates are rounded.
    """
    for part in module.modules():
        if not isinstance(part, nn.LayerNorm):
            for parameter in part.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)
