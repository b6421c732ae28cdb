"""Column-wise global self-attention of the extra MSA (AlphaFold 2 supplement, Algorithm 19).

Shape suffixes: S extra MSA rows, T residues of a tile, C channels, H heads, D channels of a head.
"""

import torch
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.initial_weights import final_linear, linear
from bioattn.models.evoformer.tiled_layers import add_tiled

TILE_ELEMENTS = 1 << 19
"""MSA elements of a tile: 8 residues of 1024 rows and 64 channels; as in row attention."""
EPSILON = 1e-10
"""Rows added to the count of a column's mean, so that a column without rows has mean 0."""


class MsaColumnGlobalAttention(nn.Module):
    """One query per column, the mean of its rows; keys and values are shared by all heads.

    `project_kvg.weight` (2·D + C, C) holds key, value and gate one after another, the gate head-major.
    """

    def __init__(self, msa_channels: int, site: AttentionSite, *, uniform: bool = False) -> None:
        super().__init__()
        self.site = site
        self.uniform = uniform
        self.head_channels = msa_channels // site.num_heads
        self.score = DotScore()
        self.normalise = nn.LayerNorm(msa_channels)
        self.project_query = linear(msa_channels, msa_channels, bias=False)
        self.project_kvg = linear(msa_channels, 2 * self.head_channels + msa_channels, bias=False)
        self.gate_bias = nn.Parameter(torch.ones(msa_channels))
        self.project_output = final_linear(msa_channels, msa_channels)
        with torch.no_grad():
            self.project_kvg.weight[2 * self.head_channels :] = 0

    def forward(self, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked."""

        def update(columns: slice, columns_TSC: Tensor, mask_TS: Tensor) -> Tensor:
            tile = Tile("residue", columns.start, msa_SRC.shape[1])
            return self._attend(self.normalise(columns_TSC), mask_TS, tile)

        columns_RSC = msa_SRC.transpose(0, 1)
        return add_tiled(
            update, TILE_ELEMENTS, sliced=(columns_RSC, mask_SR.T), parameters=self.parameters()
        ).transpose(0, 1)

    def _attend(self, normed_TSC: Tensor, mask_TS: Tensor, tile: Tile) -> Tensor:
        """(T, S, C) → the update (T, S, C)."""
        counted = mask_TS.unsqueeze(-1).to(normed_TSC.dtype)
        mean_TC = (normed_TSC * counted).sum(1) / (counted.sum(1) + EPSILON)
        query_THD = self.project_query(mean_TC).unflatten(-1, (-1, self.head_channels))
        if self.uniform:
            query_THD = torch.zeros_like(query_THD)
        kvg = self.project_kvg(normed_TSC)
        key_TSD, value_TSD, gate_TSC = kvg.split(
            [self.head_channels, self.head_channels, kvg.shape[-1] - 2 * self.head_channels], dim=-1
        )
        weights_THS = attention_weights(
            query_THD,
            key_TSD,
            score=self.score,
            mask=(mask_TS > 0).unsqueeze(1),
            site=self.site,
            tile=tile,
            value=value_TSD,
        )
        attended_T1C = (weights_THS @ value_TSD).flatten(1).unsqueeze(1)
        update: Tensor = self.project_output(attended_T1C * torch.sigmoid(gate_TSC + self.gate_bias))
        return update
