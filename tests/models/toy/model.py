"""The layers of a toy model. Shape suffixes: B sequences, L bases, C channels."""

import torch
from torch import Tensor, nn

from bioattn.attention.choices import AttentionScore
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis

UNKNOWN, PADDING = 4, 5
SITE = AttentionSite(
    name="toy.bases.0",
    axes=(
        Axis("sample"),
        Axis("head", size=2),
        Axis("query", "base", lengths="length"),
        Axis("key", "base", lengths="length"),
    ),
    heads=(0, 1),
)


class ToyModel(nn.Module):
    """Codes (B, L), 0..4 = A C G T N and 5 = padding → logits (B, L) that a base has occurred before."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, channels)
        self.attention = MultiHeadAttention(
            query_channels=channels,
            key_channels=channels,
            value_channels=channels,
            output_channels=channels,
            num_heads=2,
            head_channels=4,
            score=AttentionScore.DOT,
            site=SITE,
        )
        self.readout = nn.Linear(channels, 1)

    def forward(self, codes_BL: Tensor) -> Tensor:
        """Every base attends to all bases of its sequence, padding left out."""
        bases_BLC = self.embed(codes_BL.long())
        mask_B11L = (codes_BL != PADDING)[:, None, None, :]
        mixed_BLC = self.attention(bases_BLC, bases_BLC, bases_BLC, mask=mask_B11L)
        logits_BL: Tensor = self.readout(torch.tanh(bases_BLC + mixed_BLC)).squeeze(-1)
        return logits_BL
