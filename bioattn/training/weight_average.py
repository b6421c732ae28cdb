"""A running average of weights: what is validated and kept while the optimiser goes on with the weights.

With few and noisy data the last step's weights wobble around a better point (Polyak & Juditsky 1992).
"""

import copy

import torch
from torch import nn


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
