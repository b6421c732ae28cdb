"""Outer product mean: from the MSA to pairs of columns (AlphaFold 2 supplement, Algorithm 10).

Shape suffixes: S MSA rows, R residues, T residues of a tile, C channels, A and B channels of the two factors.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, linear
from bioattn.models.evoformer.tiles import add_update

TILE_RESIDUES = 8
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
        dtype = self.project_factors.weight.dtype
        factors = self.project_factors(self.normalise(msa_SRC).to(dtype)) * mask_SR.unsqueeze(-1).to(dtype)
        if self.centred:
            present_SR1 = mask_SR.unsqueeze(-1).to(dtype)
            factors = factors - present_SR1 * (factors.sum(0) / (present_SR1.sum(0) + EPSILON))
        first_SRA, second_SRB = factors.chunk(2, dim=-1)
        num_rows, num_residues, channels = first_SRA.shape
        first_RAS = first_SRA.permute(1, 2, 0).contiguous()
        # (S, B·R): the products of residue i are then (A·B, R) as they lie, ready for the output projection.
        second_SBR = second_SRB.transpose(1, 2).reshape(num_rows, -1)
        count_RR = mask_SR.T @ mask_SR + EPSILON

        def update(_pair_TRC: Tensor, residues: slice) -> Tensor:
            first = first_RAS[residues].flatten(0, 1)
            outer = (first @ second_SBR).view(-1, channels * channels, num_residues)
            projected: Tensor = self.project_output(outer.transpose(1, 2))
            return projected / count_RR[residues].unsqueeze(-1)

        return add_update(pair_RRC, update, TILE_RESIDUES)
