"""Triangular gated self-attention around the starting and the ending node (AlphaFold 2 supplement, Algorithms
13 and 14).

Shape suffixes: R residues, T residues of a tile, C channels, H heads.
"""

from torch import Tensor, nn

from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.gated_attention import GatedAttention
from bioattn.models.evoformer.initial_weights import linear
from bioattn.models.evoformer.pair_bias import pair_bias
from bioattn.models.evoformer.tiled_layers import add_tiled

TILE_ELEMENTS = 1 << 19
"""Pair elements of a tile: 16 of 256 residues with 128 channels; as in row attention."""
TILE_LEAST = 8
"""Least rows of a tile: the bias is prepared once per tile, which costs as much as one row."""


class TriangleAttention(nn.Module):
    """Edges that share their starting node attend to each other, biased by the third edge of the triangle.

    Around the ending node the same is done to the transposed pair representation.
    """

    def __init__(self, pair_channels: int, site: AttentionSite, *, starting: bool) -> None:
        super().__init__()
        self.starting = starting
        self.normalise = nn.LayerNorm(pair_channels)
        self.project_pair_bias = linear(pair_channels, site.num_heads, bias=False)
        self.attention = GatedAttention(pair_channels, site)

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked.

        Where all edges of a node are masked, its edges attend to all of them alike.
        """
        state_RRC = pair_RRC if self.starting else pair_RRC.transpose(0, 1)
        bias_HRR = pair_bias(pair_RRC, self.normalise, self.project_pair_bias)

        def update(nodes: slice, edges_TRC: Tensor, allowed_TR: Tensor, bias_HRR: Tensor) -> Tensor:
            tile = Tile("residue", nodes.start, pair_RRC.shape[0])
            attended: Tensor = self.attention(self.normalise(edges_TRC), allowed_TR, bias_HRR, tile)
            return attended

        updated = add_tiled(
            update,
            TILE_ELEMENTS,
            least=TILE_LEAST,
            sliced=(state_RRC, (mask_RR if self.starting else mask_RR.T) > 0),
            whole=(bias_HRR if self.starting else bias_HRR.transpose(1, 2).contiguous(),),
            parameters=[*self.normalise.parameters(), *self.attention.parameters()],
        )
        return updated if self.starting else updated.transpose(0, 1)
