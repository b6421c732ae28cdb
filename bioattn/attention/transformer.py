"""One layer of a transformer: self-attention and a feed-forward network.

Shape suffixes: L positions, C channels; leading axes are `...`.
"""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.choices import AttentionScore, PositionEncoding
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite

WIDENING = 4
"""Channels of the hidden layer over channels of the model (Vaswani et al. 2017)."""


class TransformerLayer(nn.Module):
    """Both parts are normalised before and added to what came in (pre-norm, Xiong et al. 2020)."""

    def __init__(
        self, *, channels: int, head_channels: int, site: AttentionSite, position: PositionEncoding
    ) -> None:
        """position: only `rotary` matters here; what is added to the inputs is added before the first layer."""
        super().__init__()
        self.normalise_attention = nn.LayerNorm(channels)
        self.attention = MultiHeadAttention(
            query_channels=channels,
            key_channels=channels,
            value_channels=channels,
            output_channels=channels,
            num_heads=site.num_heads,
            head_channels=head_channels,
            score=AttentionScore.DOT,
            site=site,
            rotary=position is PositionEncoding.ROTARY,
        )
        self.normalise_hidden = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, WIDENING * channels)
        self.narrow = nn.Linear(WIDENING * channels, channels)

    def forward(self, inputs: Tensor, *, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Positions (..., L, C) → (..., L, C). mask and causal: as `MultiHeadAttention` takes them."""
        normal = self.normalise_attention(inputs)
        inputs = inputs + self.attention(normal, normal, normal, mask=mask, causal=causal)
        output: Tensor = inputs + self.narrow(F.gelu(self.widen(self.normalise_hidden(inputs))))
        return output
