"""How spread out attention is, as a number a loss can hold.

Shape suffixes: K keys; leading axes are `...`.
"""

import math

import torch
from torch import Tensor

from bioattn.attention.site import AttentionSite, Tile

LEAST_WEIGHT = 1e-12
"""Below it the logarithm stands still: a masked key weighs 0, and so does its part of the gradient."""


def relative_entropy(weights: Tensor, *, null_key: bool = False) -> Tensor:
    """Entropy of each row of weights (..., K) over the logarithm of the number of keys: 1 = uniform, 0 = one key.

    null_key: what a row lacks to 1 is the weight of one more key. Differentiable; a single key has entropy 0.
    """
    keys = weights.shape[-1] + null_key
    if keys < 2:
        return weights.sum(-1) * 0.0
    nats = -(weights * weights.clamp(min=LEAST_WEIGHT).log()).sum(-1)
    if null_key:
        rest = (1 - weights.sum(-1)).clamp(min=LEAST_WEIGHT)
        nats = nats - rest * rest.log()
    return nats / math.log(keys)


class EntropyMeter:
    """An `AttentionReceiver` that keeps the mean entropy of every site heard. Listen with `gradients=True` to
    train on it."""

    def __init__(self) -> None:
        self._means: list[Tensor] = []

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        """Take the weights of one site; all its rows count alike, those of other tiles as a site of its own."""
        self._means.append(relative_entropy(weights, null_key=site.null_key).mean())

    def mean(self) -> Tensor:
        """Mean over the sites heard, a scalar. Raises: RuntimeError when none was."""
        if not self._means:
            raise RuntimeError("no attention was heard")
        return torch.stack(self._means).mean()
