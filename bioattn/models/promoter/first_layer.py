"""What the first layer of a promoter model matches, as counts of bases.

A filter of a convolution is shown as the sites that excite it at least half as much as the one site that excites
it most (Kelley et al. 2016; Koo & Eddy 2019).

Shape suffixes: B promoters, L bases, F filters, K bases of a filter, C channels.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import UNKNOWN, reverse_complement
from bioattn.models.promoter.model import ConcatModel, PromoterModel
from bioattn.models.promoter.stem import ConvStem, one_hot

HALF = 0.5
MAX_SITES = 1000
"""The best sites of a filter count."""
MAX_PROMOTERS = 2000
"""So many promoters, evenly chosen, are looked through."""
_BATCH = 32


Counts = NDArray[np.float64]
"""(places, 4): how often each base stands at each place."""


def first_layer_matches(
    model: PromoterModel, codes_BL: NDArray[np.uint8], device: torch.device
) -> Iterator[tuple[str, Counts]]:
    """Counts of what `filter_<number>` matches in promoters; numbers go on from network to network.

    codes_BL: promoters as the model sees them. Raises: BioattnError when the model has no filters in its first
    layer.
    """
    codes = codes_BL[:: max(1, -(-len(codes_BL) // MAX_PROMOTERS))]
    modules = [each for each in model.modules() if isinstance(each, ConvStem | ConcatModel)]
    if not modules:
        raise BioattnError("--model: has no filters in its first layer")
    first = 0
    for module in modules:
        both_strands = isinstance(module, ConvStem) and module.both_strands
        layer: Any = module.convolution if isinstance(module, ConvStem) else module.sequence[0]
        for number, counts in _of_filters(layer, codes, device, both_strands=both_strands):
            yield f"filter_{first + number}", counts
        first += layer.weight.shape[0]


def _of_filters(
    convolution: nn.Conv1d, codes: NDArray[np.uint8], device: torch.device, *, both_strands: bool
) -> Iterator[tuple[int, Counts]]:
    filters, width = convolution.weight.shape[0], int(convolution.kernel_size[0])
    highest = np.full(filters, -np.inf)
    for _, excited, _ in _excitations(convolution, codes, device, both_strands=both_strands):
        np.maximum(highest, excited.amax(dim=(0, 2)).cpu().numpy(), out=highest)
    found: list[list[tuple[NDArray[np.float32], NDArray[np.uint8]]]] = [[] for _ in range(filters)]
    for begin, excited, turned in _excitations(convolution, codes, device, both_strands=both_strands):
        excited_BFL = excited.cpu().numpy()
        for number in np.flatnonzero(highest > 0).tolist():
            row, start = np.nonzero(excited_BFL[:, number] >= HALF * highest[number])
            place = start[:, None] + np.arange(width)
            sites = codes[begin + row[:, None], place]
            if turned is not None:
                on_minus = turned[:, number].cpu().numpy()[row, start]
                sites[on_minus] = reverse_complement(sites[on_minus])
            known = ~(sites >= UNKNOWN).any(axis=1)
            found[number].append((excited_BFL[row, number, start][known], sites[known]))
    for number, parts in enumerate(found):
        if not parts:
            continue
        strength = np.concatenate([part[0] for part in parts])
        sites = np.concatenate([part[1] for part in parts])
        best = sites[np.argsort(-strength, kind="stable")[:MAX_SITES]]
        counts = np.stack([(best == base).sum(axis=0) for base in range(4)], axis=1).astype(np.float64)
        yield number, counts


@torch.no_grad()
def _excitations(
    convolution: nn.Conv1d, codes: NDArray[np.uint8], device: torch.device, *, both_strands: bool
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Number of the first promoter, how each place excites each filter (B, F, L - K + 1), where turned round."""
    for first in range(0, len(codes), _BATCH):
        bases = one_hot(torch.from_numpy(codes[first : first + _BATCH]).to(device))
        forward = functional.conv1d(bases, convolution.weight, convolution.bias)
        if not both_strands:
            yield first, forward, None
            continue
        backward = functional.conv1d(bases, convolution.weight.flip(1, 2), convolution.bias)
        yield first, torch.maximum(forward, backward), backward > forward
