"""Masks on the outputs of attention heads, to silence heads or to differentiate the loss with respect to a mask.

The output projection of a layer sums its heads; a mask multiplies each head's part of that sum (Michel, Levy &
Neubig 2019, equation 2). Masks work for every layer with a site and an output projection of concatenated heads.

Shape suffixes: H heads, D channels of a head; leading axes are `...`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from bioattn.attention.site import AttentionSite


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
                handle = project.register_forward_pre_hook(_multiplier(mask, site.num_heads))
                stack.callback(handle.remove)
        yield


def _multiplier(mask: Tensor, num_heads: int) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Tensor]]:
    def multiply(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor]:
        heads: Tensor = inputs[0].unflatten(-1, (num_heads, -1)) * mask.unsqueeze(-1)
        return (heads.flatten(-2),)

    return multiply
