"""Attention weights of samples: added up over sites and heads, or put in place of a model's own by
`bioattn.attention.capture.substitute`: uniform, in random order, or those of another sample. A key is visible
where it may be attended to.

Shape suffixes: N samples, B samples of a batch, T tasks, H heads, K keys (positions, tokens, atoms), P bins.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from bioattn.attention.capture import Substitution
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks.record import HeadSpread

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


class MapSums:
    """A receiver that adds up maps over sites and heads, batch by batch."""

    def __init__(self, known_BP: NDArray[np.bool_], num_tasks: int) -> None:
        self._known_BP = known_BP
        self.sum_BTP = np.zeros((len(known_BP), num_tasks, known_BP.shape[1]), np.float32)
        """Means over heads, summed over sites."""
        self._batches = Batches()
        self._sums: dict[str, NDArray[np.float64]] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        """Add the weights (B, H, T, P) of one site and batch."""
        rows = self._batches.rows(site, weights)
        self.sum_BTP[rows] += weights.mean(1).cpu().numpy()
        attended = weights.sum(-1, keepdim=True)
        shares = weights / attended.clamp(min=1e-12)
        bins = torch.from_numpy(self._known_BP[rows].sum(1)).to(weights.device)
        entropy = -torch.special.xlogy(shares, shares).sum(-1) / bins.clamp(min=2).log()[:, None, None]
        figures = torch.stack([entropy, weights.amax(-1), 1 - attended.squeeze(-1)])
        sums = figures.double().sum((1, 3)).cpu().numpy()
        self._sums[site.name] = self._sums.get(site.name, 0.0) + sums

    def mean(self) -> NDArray[np.float32]:
        """Mean over heads and sites (B, T, P), as attention is mostly shown."""
        return np.asarray(self.sum_BTP / np.float32(len(self._sums)))

    def spreads(self) -> list[HeadSpread]:
        """Means over all received weights, by site and head."""
        pairs = self.sum_BTP.shape[0] * self.sum_BTP.shape[1]
        spreads = []
        for site, sums in self._sums.items():
            for head, (entropy, top, sink) in enumerate((sums / pairs).T.tolist()):
                spread = HeadSpread(
                    site=site, head=head, entropy=entropy, top_weight=top, sink=max(0.0, sink)
                )
                spreads.append(spread)
        return spreads
