"""Weights that a trained model attends with instead of its own, for `bioattn.attention.capture.substitute`:
uniform, in random order, or those of another sample. A key is visible where it may be attended to.

Shape suffixes: N samples, B samples of a batch, K keys (positions, tokens, atoms).
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from bioattn.attention.capture import Substitution
from bioattn.attention.site import AttentionSite, Tile

Draw = Callable[[Tensor, Tile | None], Tensor]
"""Random numbers from 0 to 1 in the shape of weights."""


class Batches:
    """Tells which samples the batches of a site hold, over one pass in their order."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}

    def rows(self, site: AttentionSite, weights: Tensor, tile: Tile | None = None) -> slice:
        """The samples of the next batch, or of the next tile of a batch."""
        first = self._done.get(site.name, 0)
        if is_last(weights, tile):
            self._done[site.name] = first + len(weights)
        return slice(first, first + len(weights))


def is_last(weights: Tensor, tile: Tile | None) -> bool:
    """Whether weights (..., Q, K) are those of the last tile of queries, or of all."""
    return tile is None or tile.start + weights.shape[-2] == tile.total


def all_visible(_site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    """1 for every key."""
    return torch.ones_like(weights)


def weighed_visible(_site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    """1 for keys that are attended to at all."""
    return (weights > 0).to(weights)


class KnownVisible:
    """1 for keys of weights (B, H, Q, K) that a sample has; for one pass over all samples, in their order."""

    def __init__(self, known_NK: NDArray[np.bool_], *, causal: bool = False) -> None:
        """causal: queries are tokens, and see no token behind them."""
        self._known_NK, self._causal, self._batches = torch.from_numpy(known_NK), causal, Batches()

    def __call__(self, site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        known_BK = self._known_NK[self._batches.rows(site, weights, tile)].to(weights)
        visible = pad(known_BK, (0, int(site.null_key)))[:, None, None].expand_as(weights)
        return visible.tril(tile.start if tile else 0) if self._causal else visible


def uniform(visible: Substitution) -> Substitution:
    """Uniform weights over the visible keys."""

    def substitution(site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        seen = visible(site, weights, tile)
        return seen / seen.sum(-1, keepdim=True).clamp(min=1)

    return substitution


def drawn_by(seed: int) -> Draw:
    """Numbers that go on from call to call."""
    random = np.random.default_rng([seed, 5])
    return lambda weights, _tile: torch.from_numpy(random.random(weights.shape)).to(weights.device)


def drawn_alike(weights: Tensor, tile: Tile | None) -> Tensor:
    """The same numbers in every pass."""
    random = torch.Generator().manual_seed(tile.start if tile else 0)
    return torch.rand(weights.shape, generator=random).to(weights.device)


def shuffled(visible: Substitution, draw: Draw) -> Substitution:
    """The weights of each query and head in random order among the visible keys."""

    def substitution(site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        seen = visible(site, weights, tile)
        places, others = (-seen).argsort(dim=-1, stable=True), (draw(weights, tile) - seen).argsort(-1)
        return torch.empty_like(weights).scatter(-1, places, weights.gather(-1, others))

    return substitution


def of_sample_before(_site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    """The weights of the sample before in the batch, the first sample those of the last.

    What remains is the part of the maps that does not depend on the sample. Samples must have the same keys.
    """
    return weights.roll(1, dims=0)


class OfSampleBefore:
    """The queries of a sample use the weights (B, …, Q, K) of those of the sample before it in the batch, in their
    order and again from the first; for one pass over all samples whose queries and keys differ in number."""

    def __init__(self, known_NQ: NDArray[np.bool_]) -> None:
        self._sizes_N, self._batches = torch.from_numpy(known_NQ.sum(1)), Batches()

    def __call__(self, site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        sizes_B = self._sizes_N[self._batches.rows(site, weights)].to(weights.device).roll(1)
        queries_BQ = torch.arange(weights.shape[-2], device=weights.device) % sizes_B[:, None]
        shape = (len(weights), *[1] * (weights.ndim - 3), weights.shape[-2], 1)
        return weights.roll(1, 0).take_along_dim(queries_BQ.view(shape), -2)
