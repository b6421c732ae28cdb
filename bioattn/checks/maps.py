"""Attention maps of samples, added up over sites and heads.

Shape suffixes: B samples, T tasks, H heads, P bins.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks.record import HeadSpread
from bioattn.checks.substitutions import Batches


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
