"""What the keys of attention layers add to a prediction that is no sum over them.

Integrated gradients (Sundararajan, Taly & Yan 2017) along the straight line from "all weight on the null key" to
the weights as they are. The weights of all keys at all sites are multiplied by one share that rises from 0 to 1;
a key contributes the mean of the derivative by its own share. With the prediction at share 0 the contributions
add up to the prediction.

Shape suffixes: K keys; leading axes are `...`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bioattn.attention.capture import capture, substitute
from bioattn.attention.site import AttentionSite, Tile

TOLERANCE = 1e-4
"""Largest part of a prediction's difference from that at share 0 that contributions may miss."""
FIRST_NODES = 16
MOST_NODES = 256
"""Points of the line at which gradients are taken (Gauss–Legendre): doubled until contributions are complete."""


class _Shares:
    """A `Substitution` that multiplies weights by a share, by which it keeps the derivative within reach."""

    def __init__(self, share: float) -> None:
        self._share = share
        self.of_site: dict[str, Tensor] = {}

    def __call__(self, site: AttentionSite, weights: Tensor, tile: Tile | None, /) -> Tensor:
        """The null key's value is zero, so the weight it would gain need not be given to it."""
        shares = torch.full_like(weights, self._share, requires_grad=True)
        self.of_site[site.name] = shares
        return weights * shares


class Integrated(NamedTuple):
    """Predictions and, by name of the site, weights and contributions, (..., K) without the null key."""

    predictions: Tensor
    weights: dict[str, Tensor]
    contributions: dict[str, Tensor]


class _Kept(dict[str, Tensor]):
    """An `AttentionReceiver` that keeps the weights of each site."""

    def receive(
        self, site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        self[site.name] = weights


def integrated_gradients(predict: Callable[[], Tensor], sites: Sequence[AttentionSite]) -> Integrated:
    """What each key of each site contributes to each prediction.

    predict: runs the model and returns its predictions (sample, treatment); each depends on its own weights alone.
    sites: all through which the input reaches the predictions; their null keys have the value zero.
    """
    names = [site.name for site in sites]
    kept = _Kept()
    with torch.no_grad():
        with capture(names, kept):
            predictions = predict()
        with substitute(names, _Shares(0.0)):
            difference = (predictions - predict()).float()
    nodes = FIRST_NODES
    while True:
        summed = _summed_gradients(predict, names, nodes)
        contributions = {
            site.name: summed[site.name][..., :-1] if site.null_key else summed[site.name] for site in sites
        }
        missing = difference - sum(
            contributions[site.name].sum([site.dims.index("head"), site.dims.index("key")]) for site in sites
        )
        if nodes == MOST_NODES or bool((missing.abs() <= TOLERANCE * difference.abs() + 1e-6).all()):
            return Integrated(predictions, kept, contributions)
        nodes *= 2


def _summed_gradients(predict: Callable[[], Tensor], sites: Sequence[str], nodes: int) -> dict[str, Tensor]:
    """The integral over the share of the derivatives by each key's own share, by name of the site."""
    summed: dict[str, Tensor] = {}
    for place, length in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
        shares = _Shares(float(place + 1) / 2)
        with torch.enable_grad(), substitute(sites, shares):
            gradients = torch.autograd.grad(predict().float().sum(), list(shares.of_site.values()))
        for name, gradient in zip(shares.of_site, gradients, strict=True):
            part = gradient.float() * float(length / 2)
            summed[name] = summed[name] + part if name in summed else part
    return summed
