"""Outer product mean: from the MSA to pairs of columns (AlphaFold 2 supplement, Algorithm 10).

Shape suffixes: S MSA rows, R residues, T residues of a tile, C pair channels, A and B channels of the two factors.
"""

import torch
from torch import Tensor, nn

from bioattn.matrix_products import matmul
from bioattn.models.evoformer.initial_weights import final_linear, linear
from bioattn.models.evoformer.tiles import tiles

TILE_RESIDUES = 8
TILE_ROWS = 16
EPSILON = 1e-3
"""Added to the number of rows that cover a pair."""


class OuterProductMean(nn.Module):
    """Mean over rows of the outer product of two projections of columns i and j.

    `project_factors.weight` (A + B, C) holds the factor of i and that of j; `project_output.weight` (C, A·B) has
    the channel of i as the slower one. The output bias is divided by the count too: a pair that no row covers
    gets bias / 1e-3, as in AlphaFold.
    """

    def __init__(
        self, msa_channels: int, pair_channels: int, hidden_channels: int, *, centred: bool = False
    ) -> None:
        """`centred`: each projection loses its mean over the rows of its column first, so that the layer gives
        covariances of columns instead of mean products. Not AlphaFold's, whose pairs must learn to subtract what
        two columns have in common by chance; models trained on few families have not the data for that."""
        super().__init__()
        self.centred = centred
        self.normalise = nn.LayerNorm(msa_channels)
        self.project_factors = linear(msa_channels, 2 * hidden_channels)
        self.project_output = final_linear(hidden_channels * hidden_channels, pair_channels)

    def forward(self, pair_RRC: Tensor, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = residue, 0 = masked."""
        count_RR = mask_SR.T @ mask_SR + EPSILON
        first_SRA, second_SRB = self._factors(msa_SRC, mask_SR).chunk(2, dim=-1)
        if torch.is_grad_enabled():
            outer = torch.einsum("sia,sjb->ijab", first_SRA, second_SRB).flatten(-2)
            projected: Tensor = self.project_output(outer)
            return pair_RRC + projected / count_RR.unsqueeze(-1)
        num_rows, num_residues, channels = first_SRA.shape
        first_RAS = first_SRA.permute(1, 2, 0).contiguous()
        second_SX = second_SRB.transpose(1, 2).reshape(num_rows, channels * num_residues)
        weight = self.project_output.weight
        bias_C1 = self.project_output.bias.unsqueeze(-1)
        for residues in tiles(num_residues, TILE_RESIDUES):
            # The products of one residue lie as (A·B, R): ready for the output projection, transposed.
            outer = matmul(first_RAS[residues].flatten(0, 1), second_SX)
            outer_TAR = outer.view(-1, channels * channels, num_residues)
            for residue, outer_AR in enumerate(outer_TAR, start=residues.start):
                update_CR = matmul(weight, outer_AR).add_(bias_C1) / count_RR[residue]
                pair_RRC[residue] += update_CR.T
        return pair_RRC

    def _factors(self, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        """Both factors (S, R, A + B), 0 where masked."""
        mask_SR1 = mask_SR.unsqueeze(-1).to(self.project_factors.weight.dtype)
        if torch.is_grad_enabled():
            factors: Tensor = self.project_factors(self.normalise(msa_SRC)) * mask_SR1
        else:
            factors = msa_SRC.new_empty(
                *mask_SR.shape, self.project_factors.out_features, dtype=mask_SR1.dtype
            )
            for rows in tiles(len(msa_SRC), TILE_ROWS):
                projected = self.project_factors(self.normalise(msa_SRC[rows]))
                torch.mul(projected, mask_SR1[rows], out=factors[rows])
        if self.centred:
            factors = factors - mask_SR1 * (factors.sum(0) / (mask_SR1.sum(0) + EPSILON))
        return factors
