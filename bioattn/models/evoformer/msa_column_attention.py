"""Column-wise gated self-attention (AlphaFold 2 supplement, Algorithm 8).

Shape suffixes: S MSA rows, R residues, T residues of a tile, C channels.
"""

from torch import Tensor, nn

from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.gated_attention import GatedAttention
from bioattn.models.evoformer.tiled_layers import add_tiled

TILE_ELEMENTS = 1 << 19
"""MSA elements of a tile: 16 residues of 128 rows and 256 channels; as in row attention."""


class MsaColumnAttention(nn.Module):
    """Every row attends to the rows of the same column."""

    def __init__(self, msa_channels: int, site: AttentionSite, *, uniform: bool = False) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(msa_channels)
        self.attention = GatedAttention(msa_channels, site, uniform=uniform)

    def forward(self, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked.

        A column that is masked throughout attends to all its rows alike.
        """

        def update(columns: slice, columns_TSC: Tensor, allowed_TS: Tensor) -> Tensor:
            tile = Tile("residue", columns.start, msa_SRC.shape[1])
            attended: Tensor = self.attention(self.normalise(columns_TSC), allowed_TS, None, tile)
            return attended

        columns_RSC = msa_SRC.transpose(0, 1)
        return add_tiled(
            update, TILE_ELEMENTS, sliced=(columns_RSC, mask_SR.T > 0), parameters=self.parameters()
        ).transpose(0, 1)
