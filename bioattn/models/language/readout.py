"""What a fine-tuned language model predicts of sequences and of their tokens.

Shape suffixes: B sequences, L tokens, C channels, W outputs of a target.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.models.language.config import FineTuned, Pool, Shape, TargetKind
from bioattn.sequences.vocabulary import CLS, EOS, MASK, PAD


class Readout(nn.Module):
    """A linear layer for each target, on channels behind the last block."""

    def __init__(self, channels: int, shape: Shape, fine_tuned: FineTuned) -> None:
        super().__init__()
        self.fine_tuned = fine_tuned
        self.shape = shape
        self.layers = nn.ModuleList(nn.Linear(channels, target.width) for target in fine_tuned.targets)
        for weight in self.layers.parameters():
            nn.init.zeros_(weight)

    def forward(self, hidden_BLC: Tensor, tokens_BL: Tensor) -> list[Tensor]:
        """Of each target outputs (B, W), of tags (B, L, W): numbers in units of `sd`, or logits of classes."""
        pooled_BC = self.pooled(hidden_BLC, tokens_BL)
        return [
            layer(hidden_BLC if target.kind is TargetKind.TAGS else pooled_BC)
            for layer, target in zip(self.layers, self.fine_tuned.targets, strict=True)
        ]

    def pooled(self, hidden_BLC: Tensor, tokens_BL: Tensor) -> Tensor:
        """Channels (B, C) that stand for whole sequences.

        In a decoder only the last token, `<eos>`, sees the whole sequence.
        """
        if self.fine_tuned.pool is Pool.MEAN:
            return mean_of_words(hidden_BLC, tokens_BL)
        if self.shape is not Shape.DECODER:
            return hidden_BLC[:, 0]
        last_B11 = (tokens_BL != PAD).sum(-1).sub(1)[:, None, None]
        return hidden_BLC.gather(1, last_B11.expand(-1, 1, hidden_BLC.shape[-1]))[:, 0]


def is_word(tokens: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which tokens are words, known or not."""
    return ~np.isin(tokens, (PAD, CLS, EOS, MASK))


def mean_of_words(channels_BLC: Tensor, tokens_BL: Tensor) -> Tensor:
    """Mean over the words of each sequence, `<cls>`, `<eos>` and padding left out: (B, C)."""
    is_word_BL = torch.from_numpy(is_word(tokens_BL.cpu().numpy()))
    share_BL = is_word_BL.float() / is_word_BL.sum(-1, keepdim=True)
    return torch.einsum("blc,bl->bc", channels_BLC, share_BL.to(channels_BLC.device))
