"""Attention and matrix products on the CPU: tiles that stay in the cache, and their gradients."""

import torch
from torch import Tensor


def on_cpu(tensor: Tensor) -> bool:
    """Whether to compute piece by piece, each in the caches of a CPU: an accelerator and a compiled graph take all
    at once."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu"
