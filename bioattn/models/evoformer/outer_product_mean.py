"""Outer product mean: from the MSA to pairs of columns (AlphaFold 2 supplement, Algorithm 10).

Shape suffixes: S MSA rows, R residues, T residues of a tile, C pair channels, A and B channels of the two factors.
"""

import torch
from torch import Tensor, nn

from bioattn.attention.cpu.matmul import linear, matmul
from bioattn.models.evoformer.projection import final_linear
from bioattn.models.evoformer.projection import linear as new_linear
from bioattn.models.evoformer.tiled_layers import add_tiled, map_tiled

TILE_ELEMENTS = 1 << 18
"""Pair elements of a tile: 8 residues i, 256 residues j, 128 channels; outer products take 8 MB in float32."""
TILE_MSA_ELEMENTS = 1 << 20
"""MSA elements of a tile: 16 rows of 256 residues with 256 channels."""
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
        """`centred`: the mean over the rows of a column is subtracted from each projection first, so that the
        layer gives covariances of columns instead of mean products. AlphaFold does not do this; its pairs must
        learn to subtract what two columns share by chance, for which few families are too little data."""
        super().__init__()
        self.centred = centred
        self.normalise = nn.LayerNorm(msa_channels)
        self.project_factors = new_linear(msa_channels, 2 * hidden_channels)
        self.project_output = final_linear(hidden_channels * hidden_channels, pair_channels)

    def forward(self, pair_RRC: Tensor, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = residue, 0 = masked."""
        count_RR = mask_SR.T @ mask_SR + EPSILON
        factors_SRX = map_tiled(
            self._factors,
            TILE_MSA_ELEMENTS,
            lambda: self._new_factors(msa_SRC),
            sliced=(msa_SRC, mask_SR),
            parameters=[*self.normalise.parameters(), *self.project_factors.parameters()],
        )
        if self.centred:
            mask_SR1 = mask_SR.unsqueeze(-1).to(factors_SRX.dtype)
            factors_SRX = factors_SRX - mask_SR1 * (factors_SRX.sum(0) / (mask_SR1.sum(0) + EPSILON))
        first_SRA, second_SRB = factors_SRX.chunk(2, dim=-1)
        return add_tiled(
            self._update,
            TILE_ELEMENTS,
            sliced=(pair_RRC, first_SRA.permute(1, 2, 0), count_RR),
            # (B·R, S): the products of one residue then lie as (A·B, R), ready for the output projection.
            whole=(second_SRB.permute(2, 1, 0).reshape(-1, len(msa_SRC)),),
            parameters=self.project_output.parameters(),
        )

    def _new_factors(self, msa_SRC: Tensor) -> Tensor:
        projection = self.project_factors
        return msa_SRC.new_empty(*msa_SRC.shape[:2], projection.out_features, dtype=projection.weight.dtype)

    def _factors(self, _rows: slice, msa_TRC: Tensor, mask_TR: Tensor) -> Tensor:
        """Both factors (T, R, A + B) of some rows, 0 where masked."""
        factors: Tensor = self.project_factors(self.normalise(msa_TRC))
        return factors * mask_TR.unsqueeze(-1).to(factors.dtype)

    def _update(
        self, _rows: slice, pair_TRC: Tensor, first_TAS: Tensor, count_TR: Tensor, second_XS: Tensor
    ) -> Tensor:
        """Update of the pairs of some residues i with all residues j."""
        num_residues, channels = pair_TRC.shape[1], first_TAS.shape[1]
        outer = linear(first_TAS.flatten(0, 1), second_XS)
        outer_TXR = outer.view(-1, channels * channels, num_residues)
        weight, bias_C1 = self.project_output.weight, self.project_output.bias.unsqueeze(-1)
        if torch.is_grad_enabled():
            projected_TCR = torch.stack([linear(weight, outer_XR.T) for outer_XR in outer_TXR.unbind()])
            return (projected_TCR + bias_C1).transpose(1, 2) / count_TR.unsqueeze(-1)
        update_TRC = torch.empty_like(pair_TRC)
        for outer_XR, count_R, update_RC in zip(outer_TXR, count_TR, update_TRC, strict=True):
            torch.div(matmul(weight, outer_XR).add_(bias_C1), count_R, out=update_RC.T)
        return update_TRC
