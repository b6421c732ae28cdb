"""What is asked of attention layers beside their weights: masks on heads, and what keys add to a prediction that
is no sum over them.

The output projection of a layer sums its heads; a mask multiplies each head's part of that sum (Michel, Levy &
Neubig 2019, equation 2). Masks work for every layer with a site and an output projection of concatenated heads.

Integrated gradients (Sundararajan, Taly & Yan 2017) go along the straight line from "all weight on the null key"
to the weights as they are. Those of all keys at all sites are multiplied by one share that rises from 0 to 1;
a key contributes the mean of the derivative by its own share. With the prediction at share 0 the contributions
add up to the prediction.

Shape suffixes: H heads, D channels of a head, K keys; leading axes are `...`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bioattn.attention.capture import capture, substitute
from bioattn.attention.site import AttentionSite, Tile


def attention_layers(model: nn.Module) -> dict[str, tuple[list[nn.Module], AttentionSite]]:
    """Output projections and site of every layer with concatenated heads, by the name of the site.

    Where heads are summed as they are the projection is the identity. Maps that go two ways have two projections.
    """
    layers: dict[str, tuple[list[nn.Module], AttentionSite]] = {}
    for module in model.modules():
        site, project = getattr(module, "site", None), getattr(module, "project_output", None)
        if isinstance(site, AttentionSite) and isinstance(project, nn.Linear | nn.Identity):
            layers.setdefault(site.name, ([], site))[0].append(project)
    return layers


@contextmanager
def masked_heads(model: nn.Module, masks: Mapping[str, Tensor]) -> Iterator[None]:
    """Inside the `with`, the outputs of the heads of the sites in `masks` are multiplied by their masks.

    masks: by site name, broadcastable to (..., H), where `...` are the leading axes of the layer's output. A mask
    that requires a gradient gets one, in a pass with gradients.
    """
    layers = attention_layers(model)
    with ExitStack() as stack:
        for name, mask in masks.items():
            projections, site = layers[name]
            for project in projections:
                hook = partial(_multiplied, mask, site.num_heads)
                stack.callback(project.register_forward_pre_hook(hook).remove)
        yield


def _multiplied(mask: Tensor, num_heads: int, _module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
    heads: Tensor = inputs[0].unflatten(-1, (num_heads, -1)) * mask.unsqueeze(-1)
    return (heads.flatten(-2),)


TOLERANCE = 1e-4
"""Largest part of a prediction's difference from that at share 0 that contributions may miss."""
FIRST_NODES = 16
MOST_NODES = 256
"""Points of the line at which gradients are taken (Gauss–Legendre): doubled until contributions are complete."""


def _scaled(
    share: float, shares: dict[str, Tensor], site: AttentionSite, weights: Tensor, _tile: Tile | None
) -> Tensor:
    """Weights times a share, by which the derivative is kept within reach in `shares`. The null key's value is
    zero, so the weight it would gain need not be given to it."""
    shares[site.name] = torch.full_like(weights, share, requires_grad=True)
    return weights * shares[site.name]


class Integrated(NamedTuple):
    """Predictions and, by name of the site, weights and contributions, (..., K) without the null key."""

    predictions: Tensor
    weights: dict[str, Tensor]
    contributions: dict[str, Tensor]


class _Kept(dict[str, Tensor]):
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
        with substitute(names, partial(_scaled, 0.0, {})):
            difference = (predictions - predict()).float()
    nodes = FIRST_NODES
    while True:
        # The integral over the share of the derivatives by each key's own share.
        summed: dict[str, Tensor] = {}
        for place, length in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
            shares: dict[str, Tensor] = {}
            with torch.enable_grad(), substitute(names, partial(_scaled, float(place + 1) / 2, shares)):
                gradients = torch.autograd.grad(predict().float().sum(), list(shares.values()))
            for name, gradient in zip(shares, gradients, strict=True):
                part = gradient.float() * float(length / 2)
                summed[name] = summed[name] + part if name in summed else part
        contributions = {
            site.name: summed[site.name][..., :-1] if site.null_key else summed[site.name] for site in sites
        }
        missing = difference - sum(
            contributions[site.name].sum([site.dims.index("head"), site.dims.index("key")]) for site in sites
        )
        if nodes == MOST_NODES or bool((missing.abs() <= TOLERANCE * difference.abs() + 1e-6).all()):
            return Integrated(predictions, kept, contributions)
        nodes *= 2
