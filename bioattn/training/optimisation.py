"""How weights are updated, whatever the model: optimiser and learning rate."""

import math

import torch
from torch import Tensor, nn


def make_optimizer(
    model: nn.Module, *, weight_decay: float, betas: tuple[float, float]
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019) that lets matrices and filters decay, not biases and norms.

    The learning rate is set before each update.
    """
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}],
        betas=betas,
    )


def warm_up_and_cosine(step: int, total: int, *, peak: float, warmup_fraction: float) -> float:
    """The learning rate of step `step` (from 0) of `total`: linear warm-up, then half a cosine down to 1 % of the
    peak."""
    warmup = warmup_fraction * total
    if step < warmup:
        return peak * (step + 1) / max(1.0, warmup)
    share = (step - warmup) / max(1.0, total - warmup)
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


def copied_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now, on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
