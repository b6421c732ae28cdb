"""Triangular multiplicative updates (AlphaFold 2 supplement, Algorithms 11 and 12).

Shape suffixes: R residues, T residues of a tile, N = T · R pairs of a tile, C channels, M hidden channels.
"""

import torch
from torch import Tensor, nn

from bioattn.matrix_products import linear, matmul
from bioattn.models.evoformer import initial_weights
from bioattn.models.evoformer.tiles import tiles

TILE_RESIDUES = 8
TILE_CHANNELS = 8


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
        self.project_factors = initial_weights.linear(pair_channels, 4 * hidden_channels + pair_channels)
        self.normalise_product = nn.LayerNorm(hidden_channels)
        self.project_output = initial_weights.final_linear(hidden_channels, pair_channels)
        with torch.no_grad():
            self.project_factors.weight[2 * hidden_channels :] = 0
            self.project_factors.bias[2 * hidden_channels :] = 1

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked."""
        if torch.is_grad_enabled():
            return pair_RRC + self._update(pair_RRC, mask_RR)
        left_MRR, right_MRR = self._factors(pair_RRC, mask_RR)
        # Both factors of the incoming update come transposed, so that either product is one of rows with rows.
        first_MRR, second_MRR = (left_MRR, right_MRR) if self.outgoing else (right_MRR, left_MRR)
        for channels in tiles(self.hidden_channels, TILE_CHANNELS):
            for channel in range(channels.start, channels.stop):
                first_MRR[channel] = matmul(first_MRR[channel], second_MRR[channel].T)
        product_MRR = first_MRR
        hidden = self.hidden_channels
        gate_weight, gate_bias = (
            self.project_factors.weight[4 * hidden :],
            self.project_factors.bias[4 * hidden :],
        )
        for rows in tiles(len(pair_RRC), TILE_RESIDUES):
            part_TRC = pair_RRC[rows]
            gate_TRC = linear(
                self.normalise(part_TRC).to(gate_weight.dtype), gate_weight, gate_bias
            ).sigmoid_()
            product_TRM = product_MRR[:, rows].movedim(0, -1).float()
            part_TRC += self.project_output(self.normalise_product(product_TRM)).mul_(gate_TRC)
        return pair_RRC

    def _factors(self, pair_RRC: Tensor, mask_RR: Tensor) -> tuple[Tensor, Tensor]:
        """Left and right, (M, R, R) each, those of the incoming update with their residues swapped."""
        if not self.outgoing:
            pair_RRC, mask_RR = pair_RRC.transpose(0, 1), mask_RR.T
        hidden, num_residues = self.hidden_channels, len(pair_RRC)
        weight = self.project_factors.weight[: 4 * hidden]
        bias_M1 = self.project_factors.bias[: 4 * hidden].unsqueeze(-1)
        factors_MN = pair_RRC.new_empty(2 * hidden, num_residues * num_residues, dtype=weight.dtype)
        mask_N = mask_RR.to(weight.dtype).flatten()
        for rows in tiles(num_residues, TILE_RESIDUES):
            pairs = slice(rows.start * num_residues, rows.stop * num_residues)
            normed_NC = self.normalise(pair_RRC[rows]).to(weight.dtype).flatten(0, 1)
            projected_MN = matmul(weight, normed_NC.T).add_(bias_M1)
            gates_MN = projected_MN[2 * hidden :].sigmoid_().mul_(mask_N[pairs])
            torch.mul(projected_MN[: 2 * hidden], gates_MN, out=factors_MN[:, pairs])
        left_MRR, right_MRR = factors_MN.view(2, hidden, num_residues, num_residues)
        return left_MRR, right_MRR

    def _update(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """What is added, of which gradients can be taken."""
        hidden = self.hidden_channels
        left, right, left_gate, right_gate, output_gate = self.project_factors(
            self.normalise(pair_RRC)
        ).split([hidden] * 4 + [pair_RRC.shape[-1]], dim=-1)
        mask = mask_RR.unsqueeze(-1).to(left.dtype)
        left_MRR = (mask * torch.sigmoid(left_gate) * left).movedim(-1, 0)
        right_MRR = (mask * torch.sigmoid(right_gate) * right).movedim(-1, 0)
        if self.outgoing:
            product_MRR = left_MRR @ right_MRR.transpose(1, 2)
        else:
            product_MRR = right_MRR.transpose(1, 2) @ left_MRR
        update: Tensor = self.project_output(self.normalise_product(product_MRR.movedim(0, -1).float()))
        return update * torch.sigmoid(output_gate)
