"""Gain and shape of attention: how much a treatment attends, and where.

Weight on the null key is no attention to the sequence, and neither is weight on *idle* bins, whose values hardly
vary over promoters: both only make the rest smaller. The *gain* of a map is the weight that is left, its *shape*
that weight divided by the gain. Treatments may differ in one alone, so each is exchanged without the other.

Shape suffixes: B promoters, H heads, T treatments, P bins, K bins and the null key, V channels of a value.

Replacements are weights that a model uses instead of its own, for `bioattn.attention.capture.substitute`; the
sites of `cross` have weights (B, H, T, P).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from bioattn.attention.capture import Substitution, capture, capture_values
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks.promoters import map_sites, predict
from bioattn.checks.substitutions import Batches, KnownVisible
from bioattn.checks.thresholds import IDLE
from bioattn.inference.runner import Codes, Predictor


def other_treatments(source: Sequence[int]) -> Substitution:
    """Treatment t uses the map of treatment `source[t]` of the same promoter; weights (B, H, T, P)."""
    return lambda _site, weights, _tile: _of(weights, source)


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


SMALLEST = 1e-12
"""Least divisor; what is divided by less is 0 too."""


class Parts(NamedTuple):
    """Gain and shape of weights, and what lies on the null key and on idle bins."""

    gain_BHT1: Tensor
    shape_BHTK: Tensor
    """Sums to 1 over the bins that are not idle; 0 elsewhere."""
    rest_BHTK: Tensor
    """Weights of the null key and of idle bins; 0 elsewhere."""


def split_weights(weights_BHTK: Tensor, idle_HP: Tensor, null_key: bool) -> Parts:
    """The parts of weights whose last key is the null key where `null_key` is True."""
    counted_H1K = pad((~idle_HP).to(weights_BHTK), (0, int(null_key)))[:, None]
    seen_BHTK = weights_BHTK * counted_H1K
    gain_BHT1 = seen_BHTK.sum(-1, keepdim=True)
    return Parts(gain_BHT1, seen_BHTK / gain_BHT1.clamp(min=SMALLEST), weights_BHTK - seen_BHTK)


def join_weights(gain_BHT1: Tensor, shape_BHTK: Tensor, parts: Parts, idle_HP: Tensor) -> Tensor:
    """Weights of this gain and shape; the rest is spread as in `parts`, or evenly where there was none."""
    null_keys = parts.rest_BHTK.shape[-1] - idle_HP.shape[-1]
    places_H1K = pad(idle_HP.to(gain_BHT1), (0, null_keys), value=1.0)[:, None]
    evenly_H1K = places_H1K / places_H1K.sum(-1, keepdim=True).clamp(min=1)
    before_BHT1 = parts.rest_BHTK.sum(-1, keepdim=True)
    spread_BHTK = torch.where(
        before_BHT1 > SMALLEST, parts.rest_BHTK / before_BHT1.clamp(min=SMALLEST), evenly_H1K
    )
    return gain_BHT1 * shape_BHTK + (1 - gain_BHT1) * spread_BHTK


@dataclass(frozen=True, slots=True)
class GainAndShape:
    """What gain and shape of a model's maps over some promoters are told apart by."""

    idle: dict[str, Tensor]
    """By site, (H, P): bins whose values hardly vary over promoters."""
    mean_shape: dict[str, Tensor]
    """By site, (H, T, P): mean over the promoters that have the bin."""
    known_BP: NDArray[np.bool_]
    has_gain: bool
    """Whether there is a null key or an idle bin; without, every gain is 1."""

    def exchanged(
        self, *, gains: Sequence[int] | None = None, shapes: Sequence[int] | None = None
    ) -> Substitution:
        """Weights (B, H, T, K) in which treatment t has the gain of `gains[t]` and the shape of `shapes[t]`."""

        def exchange(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
            idle_HP = self.idle[site.name]
            parts = split_weights(weights, idle_HP, site.null_key)
            return join_weights(_of(parts.gain_BHT1, gains), _of(parts.shape_BHTK, shapes), parts, idle_HP)

        return exchange

    def averaged(self) -> Substitution:
        """Weights (B, H, T, K) with own gains and the treatment's mean shape, over bins that a promoter has.

        For one pass over the promoters, in their order.
        """
        visible = KnownVisible(self.known_BP)

        def average(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
            idle_HP = self.idle[site.name]
            parts = split_weights(weights, idle_HP, site.null_key)
            shape_BHTK = pad(self.mean_shape[site.name].to(weights), (0, int(site.null_key)))
            shape_BHTK = shape_BHTK * visible(site, weights, None)
            shape_BHTK = shape_BHTK / shape_BHTK.sum(-1, keepdim=True).clamp(min=SMALLEST)
            return join_weights(parts.gain_BHT1, shape_BHTK, parts, idle_HP)

        return average


def gain_and_shape(predictor: Predictor, codes_BL: Codes, known_BP: NDArray[np.bool_]) -> GainAndShape:
    """Find idle bins and mean shapes, in two passes over promoters of which the bins `known_BP` hold bases."""
    values = _Values(known_BP)
    predict(predictor, codes_BL, capture_values(map_sites(predictor), values))
    idle = {name: values.idle_bins(name) for name in values.sums}
    shapes = _Shapes(known_BP, idle)
    predict(predictor, codes_BL, capture(map_sites(predictor), shapes))
    sites = predictor.runner.sites
    return GainAndShape(
        idle=idle,
        mean_shape=shapes.means(),
        known_BP=known_BP,
        has_gain=any(bool(idle[name].any()) or sites[name].null_key for name in idle),
    )


class _Values:
    def __init__(self, known_BP: NDArray[np.bool_]) -> None:
        self._known_BP, self._batches = torch.from_numpy(known_BP), Batches()
        self.sums: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    def __call__(self, site: AttentionSite, value_BHPV: Tensor, /) -> None:
        value = value_BHPV.double()
        known_B1P1 = self._known_BP[self._batches.rows(site, value)].to(value)[:, None, :, None]
        known = value * known_B1P1
        batch = known.sum(0), (known * value).sum((0, 3)), known_B1P1.sum((0, 1, 3))
        before = self.sums.get(site.name)
        self.sums[site.name] = (
            batch if before is None else (before[0] + batch[0], before[1] + batch[1], before[2] + batch[2])
        )

    def idle_bins(self, name: str) -> Tensor:
        """(H, P) True where a value's variance over promoters is below `IDLE` of the mean over the head's bins."""
        sum_HPV, squares_HP, count_P = self.sums[name]
        count_P = count_P.clamp(min=1)
        variance_HP = squares_HP / count_P - (sum_HPV / count_P[:, None]).square().sum(-1)
        return variance_HP < IDLE * variance_HP.mean(-1, keepdim=True)


class _Shapes:
    def __init__(self, known_BP: NDArray[np.bool_], idle: dict[str, Tensor]) -> None:
        self._count_P, self._idle = torch.from_numpy(known_BP.sum(0)).clamp(min=1), idle
        self._sums: dict[str, Tensor] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        shape_BHTP = split_weights(weights, self._idle[site.name], null_key=False).shape_BHTK
        self._sums[site.name] = self._sums.get(site.name, 0.0) + shape_BHTP.double().sum(0)

    def means(self) -> dict[str, Tensor]:
        """(H, T, P) by site."""
        return {name: sums / self._count_P.to(sums.device) for name, sums in self._sums.items()}


def _of(tensor_BHTK: Tensor, source: Sequence[int] | None) -> Tensor:
    """The treatments `source`; None = as they are."""
    if source is None:
        return tensor_BHTK
    return tensor_BHTK.index_select(-2, torch.as_tensor(list(source), device=tensor_BHTK.device))
