"""Weights that a model uses instead of its own, for `bioattn.attention.capture.substitute`.

The sites of `cross` have weights (B promoters, H heads, T treatments, P bins).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import AttentionSite, Tile


class OtherTreatments:
    """Treatment t uses the map of treatment `source[t]` of the same promoter."""

    def __init__(self, source: Sequence[int]) -> None:
        self._source = torch.as_tensor(list(source))

    def __call__(self, _site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        """Weights (B, H, T, P), treatments exchanged."""
        return weights.index_select(-2, self._source.to(weights.device))


class OtherPromoters:
    """Each promoter uses the map of the promoter before it in the batch, the first that of the last.

    What remains is the part of the maps that does not depend on the sequence. Promoters must have the same known
    bins.
    """

    def __call__(self, _site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        """Weights (B, H, T, P), promoters exchanged."""
        return weights.roll(1, dims=0)


class UniformWeights:
    """Uniform weights over the bins that hold a base; for one pass over the promoters, in their order."""

    def __init__(self, known_BP: NDArray[np.bool_]) -> None:
        self._known_BP = known_BP
        self._done: dict[str, int] = {}

    def __call__(self, site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        """Uniform weights (B, H, T, P); the null key gets none."""
        first = self._done.get(site.name, 0)
        self._done[site.name] = first + len(weights)
        known_BP = torch.from_numpy(self._known_BP[first : first + len(weights)]).to(weights)
        shares_BP = known_BP / known_BP.sum(-1, keepdim=True).clamp(min=1)
        if site.null_key:
            shares_BP = torch.nn.functional.pad(shares_BP, (0, 1))
        return shares_BP[:, None, None].expand_as(weights)


def exchanges(number: int, count: int, seed: int) -> list[list[int]]:
    """Up to `count` exchanges of `number` treatments (2 or more) in which each gets the map of another.

    In each exchange the seed draws a ring of treatments, and every treatment takes the map of the next.
    """
    rings = [np.random.default_rng([seed, 2, turn]).permutation(number) for turn in range(count)]
    sources = []
    for ring in rings if number > 2 else rings[:1]:
        source = np.empty(number, np.int64)
        source[ring] = np.roll(ring, -1)
        sources.append([int(treatment) for treatment in source])
    return sources
