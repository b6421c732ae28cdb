"""Triangular multiplicative updates (AlphaFold 2 supplement, Algorithms 11 and 12).

Shape suffixes: R residues, C channels, M hidden channels.
"""

import torch
from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, lecun_normal_


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
        self.project_factors = nn.Linear(pair_channels, 4 * hidden_channels + pair_channels)
        self.normalise_product = nn.LayerNorm(hidden_channels)
        self.project_output = final_linear(hidden_channels, pair_channels)
        with torch.no_grad():
            lecun_normal_(self.project_factors.weight)
            self.project_factors.weight[2 * hidden_channels :] = 0
            self.project_factors.bias[: 2 * hidden_channels] = 0
            self.project_factors.bias[2 * hidden_channels :] = 1

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked."""
        hidden = self.hidden_channels
        normed = self.normalise(pair_RRC).to(self.project_factors.weight.dtype)
        left, right, left_gate, right_gate, output_gate = self.project_factors(normed).split(
            [hidden] * 4 + [pair_RRC.shape[-1]], dim=-1
        )
        mask = mask_RR.unsqueeze(-1).to(normed.dtype)
        left_MRR = (mask * torch.sigmoid(left_gate) * left).movedim(-1, 0)
        right_MRR = (mask * torch.sigmoid(right_gate) * right).movedim(-1, 0)
        if self.outgoing:
            product_MRR = left_MRR @ right_MRR.transpose(1, 2)
        else:
            product_MRR = right_MRR.transpose(1, 2) @ left_MRR
        product = self.normalise_product(product_MRR.movedim(0, -1).float())
        update: Tensor = self.project_output(product.to(normed.dtype)) * torch.sigmoid(output_gate)
        if torch.is_grad_enabled():
            return pair_RRC + update
        return pair_RRC.add_(update)
