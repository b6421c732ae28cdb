"""The attention maps of a model on some promoters, and their entropy by head.

Shape suffixes: B promoters, T treatments, H heads, P bins.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.faithfulness.samples import known_bins, predict
from bioattn.inference.runner import Codes, Predictor


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpread:
    """How spread out the maps of one head of one site are."""

    site: str
    head: int
    entropy: float
    """Mean over promoters and treatments of the map's entropy over ln(bins); 1 = uniform, 0 = a single bin."""
    top_weight: float
    """Mean of the largest weight of a map."""
    sink: float
    """Mean weight that goes to the sink; 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMaps:
    """Attention maps of B promoters and T treatments, averaged over heads and sites."""

    mean_BTP: NDArray[np.float32]
    """Mean over heads and sites, as attention is mostly shown."""
    known_BP: NDArray[np.bool_]
    """Bins that hold a base."""
    edges: tuple[int, ...]
    """P + 1 bin edges in bases from the window's first base."""
    heads: list[HeadSpread]


def key_edges(predictor: Predictor) -> tuple[int, ...]:
    """The P + 1 edges of the positions that a checkable model attends to."""
    edges = next(iter(predictor.runner.sites.values())).key_edges
    assert edges is not None
    return edges


def read_maps(predictor: Predictor, codes_BL: Codes) -> AttentionMaps:
    """The maps of all promoters × treatments; memory is one map per pair, and the heads of one batch."""
    edges = key_edges(predictor)
    known_BP = known_bins(codes_BL, edges)
    collected = _Maps(known_BP, len(predictor.names))
    predict(predictor, codes_BL, capture(["*"], collected))
    return AttentionMaps(
        mean_BTP=collected.mean_BTP / np.float32(len(predictor.runner.sites)),
        known_BP=known_BP,
        edges=edges,
        heads=collected.spreads(),
    )


class _Maps:
    """A receiver that adds up maps over sites and heads, batch by batch."""

    def __init__(self, known_BP: NDArray[np.bool_], num_treatments: int) -> None:
        self._known_BP = known_BP
        self.mean_BTP = np.zeros((len(known_BP), num_treatments, known_BP.shape[1]), np.float32)
        self._done: dict[str, int] = {}
        self._sums: dict[str, NDArray[np.float64]] = {}

    def receive(
        self,
        site: AttentionSite,
        weights: Tensor,
        _value_weighted: Tensor | None,
        _tile: Tile | None = None,
    ) -> None:
        """Add the weights (B, H, T, P) of one site and batch."""
        first = self._done.get(site.name, 0)
        rows = slice(first, first + len(weights))
        self._done[site.name] = first + len(weights)
        self.mean_BTP[rows] += weights.mean(1).cpu().numpy()
        attended = weights.sum(-1, keepdim=True)
        shares = weights / attended.clamp(min=1e-12)
        bins = torch.from_numpy(self._known_BP[rows].sum(1)).to(weights.device)
        entropy = -torch.special.xlogy(shares, shares).sum(-1) / bins.clamp(min=2).log()[:, None, None]
        figures = torch.stack([entropy, weights.amax(-1), 1 - attended.squeeze(-1)])
        sums = figures.double().sum((1, 3)).cpu().numpy()
        self._sums[site.name] = self._sums.get(site.name, 0.0) + sums

    def spreads(self) -> list[HeadSpread]:
        """Means over all received weights, by site and head."""
        pairs = self.mean_BTP.shape[0] * self.mean_BTP.shape[1]
        return [
            HeadSpread(
                site=site,
                head=head,
                entropy=float(entropy / pairs),
                top_weight=float(top / pairs),
                sink=max(0.0, float(sink / pairs)),
            )
            for site, sums in self._sums.items()
            for head, (entropy, top, sink) in enumerate(sums.T)
        ]
