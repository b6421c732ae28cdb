"""Gated self-attention, the part that row, column and triangle attention share.

Shape suffixes: B sequences attended apart, N positions, H heads, C channels, D channels of a head.
"""

import torch
from torch import Tensor, nn

from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.initial_weights import final_linear, linear


class GatedAttention(nn.Module):
    """Multi-head self-attention whose heads are gated before the output projection.

    `project_qkvg.weight` (4·C, C) holds query, key, value and gate one after another, each head-major (H·D rows).
    """

    def __init__(self, channels: int, site: AttentionSite, *, uniform: bool = False) -> None:
        """`uniform`: all unmasked keys have equal weight; queries, keys and bias are ignored."""
        super().__init__()
        self.site = site
        self.uniform = uniform
        self.num_heads = site.num_heads
        self.score = DotScore()
        self.project_qkvg = linear(channels, 4 * channels, bias=False)
        self.gate_bias = nn.Parameter(torch.ones(channels))
        self.project_output = final_linear(channels, channels)
        with torch.no_grad():
            self.project_qkvg.weight[3 * channels :] = 0

    def forward(
        self, normed_BNC: Tensor, key_mask_BN: Tensor, bias_HNN: Tensor | None, tile: Tile | None
    ) -> Tensor:
        """(B, N, C), LayerNormed → the update (B, N, C).

        key_mask_BN: bool, True = may be attended. bias_HNN: added to the logits, the same for all B. tile: which
        part of the site's outer axis B is.
        """
        query_BNC, key_BNC, value_BNC, gate_BNC = self.project_qkvg(normed_BNC).chunk(4, dim=-1)
        query_BHND, key_BHND, value_BHND = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in (query_BNC, key_BNC, value_BNC)
        )
        if self.uniform:
            query_BHND, bias_HNN = torch.zeros_like(query_BHND), None
        attended_BHND = attend(
            query_BHND,
            key_BHND,
            value_BHND,
            score=self.score,
            mask=None if bool(key_mask_BN.all()) else key_mask_BN[:, None, None, :],
            bias=bias_HNN,
            site=self.site,
            tile=tile,
        )
        attended_BNC = attended_BHND.transpose(1, 2).flatten(2)
        if torch.is_grad_enabled():
            gated_BNC = attended_BNC * torch.sigmoid(gate_BNC + self.gate_bias)
        else:
            gated_BNC = attended_BNC.mul_(gate_BNC.add_(self.gate_bias).sigmoid_())
        update: Tensor = self.project_output(gated_BNC)
        return update
