"""Row-wise gated self-attention with pair bias (AlphaFold 2 supplement, Algorithm 7).

Shape suffixes: S MSA rows, R residues, C channels, H heads.
"""

from torch import Tensor, nn

from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.gated_attention import GatedAttention
from bioattn.models.evoformer.initial_weights import linear
from bioattn.models.evoformer.pair_bias import pair_bias
from bioattn.models.evoformer.tiled_layers import add_tiled

TILE_ELEMENTS = 1 << 19
"""MSA elements of a tile: 8 rows of 256 residues and 256 channels. Its intermediates (16 MB in float32) fit a
shared cache; smaller tiles cost more calls, larger ones more memory."""
TILE_LEAST = 8
"""Least rows of a tile: the bias is prepared once per tile, which costs as much as one row."""


class MsaRowAttention(nn.Module):
    """Every residue of a row attends to the row's residues; the pair representation biases the logits."""

    def __init__(
        self, msa_channels: int, pair_channels: int, site: AttentionSite, *, uniform: bool = False
    ) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(msa_channels)
        self.normalise_pair = nn.LayerNorm(pair_channels)
        self.project_pair_bias = linear(pair_channels, site.num_heads, bias=False)
        self.attention = GatedAttention(msa_channels, site, uniform=uniform)

    def forward(self, msa_SRC: Tensor, pair_RRC: Tensor, mask_SR: Tensor) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked.

        A row that is masked throughout attends to all its residues alike.
        """
        bias_HRR = pair_bias(pair_RRC, self.normalise_pair, self.project_pair_bias)

        def update(rows: slice, rows_TRC: Tensor, allowed_TR: Tensor, bias_HRR: Tensor) -> Tensor:
            tile = Tile("row", rows.start, msa_SRC.shape[0])
            attended: Tensor = self.attention(self.normalise(rows_TRC), allowed_TR, bias_HRR, tile)
            return attended

        return add_tiled(
            update,
            TILE_ELEMENTS,
            least=TILE_LEAST,
            sliced=(msa_SRC, mask_SR > 0),
            whole=(bias_HRR,),
            parameters=[*self.normalise.parameters(), *self.attention.parameters()],
        )
