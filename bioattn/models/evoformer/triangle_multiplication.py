"""Triangular multiplicative updates (AlphaFold 2 supplement, Algorithms 11 and 12).

Shape suffixes: R residues, T residues of a tile, N = T · R pairs of a tile, C channels, M hidden channels (2M:
left and right).
"""

import torch
from torch import Tensor, nn

from bioattn.attention.cpu.matmul import linear, matmul
from bioattn.models.evoformer import projection
from bioattn.models.evoformer.tiled_layers import add_tiled, map_tiled

TILE_ELEMENTS = 1 << 18
"""Pair elements of a tile: 8 rows of 256 residues with 128 channels, projected to 4 times as many."""


class TriangleMultiplication(nn.Module):
    """Edge ij is updated from the two other edges of every triangle ijk.

    outgoing (Algorithm 11): sum over k of left_ik · right_jk. Incoming (Algorithm 12): of left_kj · right_ki, left
    and right as AlphaFold's parameters name them (in the supplement and in OpenFold a = right, b = left there).

    `project_factors.weight` (4·M + C, C) holds left, right, gate of left, gate of right, gate of the output.
    """

    def __init__(self, pair_channels: int, hidden_channels: int, *, outgoing: bool) -> None:
        super().__init__()
        self.outgoing = outgoing
        self.hidden_channels = hidden_channels
        self.normalise = nn.LayerNorm(pair_channels)
        self.project_factors = projection.linear(pair_channels, 4 * hidden_channels + pair_channels)
        self.normalise_product = nn.LayerNorm(hidden_channels)
        self.project_output = projection.final_linear(hidden_channels, pair_channels)
        with torch.no_grad():
            self.project_factors.weight[2 * hidden_channels :] = 0
            self.project_factors.bias[2 * hidden_channels :] = 1

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked."""
        factors_2MRR = self._factors(pair_RRC, mask_RR)
        left_MRR, right_MRR = factors_2MRR.chunk(2)
        first_MRR, second_MRR = (left_MRR, right_MRR) if self.outgoing else (right_MRR, left_MRR)
        if torch.is_grad_enabled():
            product_MRR = first_MRR @ second_MRR.mT
        else:
            product_MRR = first_MRR
            for first_RR, second_RR in zip(first_MRR, second_MRR, strict=True):
                first_RR.copy_(matmul(first_RR, second_RR.T))
        return add_tiled(
            self._update,
            TILE_ELEMENTS,
            sliced=(pair_RRC, product_MRR.transpose(0, 1)),
            parameters=self.parameters(),
        )

    def _factors(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """Left and right, (2·M, R, R), those of the incoming update with their residues swapped: the product of
        either update is then one of rows with rows."""
        if not self.outgoing:
            pair_RRC, mask_RR = pair_RRC.transpose(0, 1), mask_RR.T
        num_factors = 2 * self.hidden_channels
        dtype = self.project_factors.weight.dtype
        return map_tiled(
            self._factors_of_rows,
            TILE_ELEMENTS,
            lambda: pair_RRC.new_empty(num_factors, *mask_RR.shape, dtype=dtype).transpose(0, 1),
            sliced=(pair_RRC, mask_RR),
            parameters=[*self.normalise.parameters(), *self.project_factors.parameters()],
        ).transpose(0, 1)

    def _factors_of_rows(self, _rows: slice, pair_TRC: Tensor, mask_TR: Tensor) -> Tensor:
        """(T, 2·M, R)."""
        num_factors = 2 * self.hidden_channels
        weight = self.project_factors.weight[: 2 * num_factors]
        bias_N1 = self.project_factors.bias[: 2 * num_factors].unsqueeze(-1)
        normed_NC = self.normalise(pair_TRC).to(weight.dtype).flatten(0, 1)
        mask_N = mask_TR.to(weight.dtype).flatten()
        if torch.is_grad_enabled():
            projected = linear(weight, normed_NC) + bias_N1
            factors = projected[:num_factors] * torch.sigmoid(projected[num_factors:]) * mask_N
        else:
            projected = linear(weight, normed_NC).add_(bias_N1)
            factors = projected[:num_factors].mul_(projected[num_factors:].sigmoid_()).mul_(mask_N)
        return factors.view(num_factors, *mask_TR.shape).transpose(0, 1)

    def _update(self, _rows: slice, pair_TRC: Tensor, product_TMR: Tensor) -> Tensor:
        first_row = 4 * self.hidden_channels
        weight, bias = self.project_factors.weight[first_row:], self.project_factors.bias[first_row:]
        gate_TRC = linear(self.normalise(pair_TRC).to(weight.dtype), weight, bias)
        if torch.is_grad_enabled():
            product_TRM = product_TMR.transpose(1, 2)
        else:
            # Dense float32 first: torch transposes that block by block, anything else number by number.
            product_MN = product_TMR.transpose(0, 1).float().contiguous().view(self.hidden_channels, -1)
            product_TRM = product_MN.T.contiguous().view(*pair_TRC.shape[:2], -1)
        update: Tensor = self.project_output(self.normalise_product(product_TRM.float()))
        if torch.is_grad_enabled():
            return update * torch.sigmoid(gate_TRC)
        return update.mul_(gate_TRC.sigmoid_())
