"""How weights are updated, whatever the model: optimiser, learning rate, and a running average of the weights.

The average is validated and kept while the optimiser goes on with the weights: with few and noisy data the last
step's weights wobble around a better point (Polyak & Juditsky 1992).
"""

import copy
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


class WeightAverage:
    """An exponential average whose memory grows with the steps, so that the first weights are soon forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model) if decay else model

    @torch.no_grad()
    def update(self, model: nn.Module, steps_done: int) -> None:
        """Move the average towards `model` after step number `steps_done` (counted from 1)."""
        if not self.decay:
            return
        decay = min(self.decay, steps_done / (10 + steps_done))
        current = model.state_dict()
        for name, average in self.model.state_dict().items():
            if average.is_floating_point():
                average.lerp_(current[name], 1 - decay)
            else:
                average.copy_(current[name])
