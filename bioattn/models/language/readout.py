"""What a fine-tuned language model predicts of sequences and of their tokens.

Shape suffixes: B sequences, L tokens, C channels, W outputs of a target.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.errors import FormatError
from bioattn.models.language.config import FineTuned, PredictedFrom, Shape, TargetKind
from bioattn.sequences.vocabulary import CLS, EOS, MASK, PAD

FIRST_SPREAD = 0.02
"""Standard deviation of the weights of a hidden layer before training."""


class Readout(nn.Module):
    """A linear layer for each target, or one with a hidden layer, on channels behind the last block."""

    def __init__(self, channels: int, shape: Shape, fine_tuned: FineTuned) -> None:
        super().__init__()
        self.fine_tuned = fine_tuned
        self.shape = shape
        pooled = channels * max(1, len(fine_tuned.varying))
        self.layers = nn.ModuleList(
            _layer(
                channels if target.kind is TargetKind.TAGS else pooled,
                fine_tuned.readout_channels,
                target.width,
            )
            for target in fine_tuned.targets
        )

    def forward(self, hidden_BLC: Tensor, tokens_BL: Tensor) -> list[Tensor]:
        """Of each target outputs (B, W), of tags (B, L, W): numbers in units of `sd`, or logits of classes."""
        pooled_BC = self.pooled(hidden_BLC, tokens_BL)
        return [
            layer(hidden_BLC if target.kind is TargetKind.TAGS else pooled_BC)
            for layer, target in zip(self.layers, self.fine_tuned.targets, strict=True)
        ]

    def pooled(self, hidden_BLC: Tensor, tokens_BL: Tensor) -> Tensor:
        """Channels (B, C) that stand for whole sequences, of varying tokens (B, tokens · C).

        In a decoder only the last token, `<eos>`, sees the whole sequence.
        """
        if self.fine_tuned.pool is PredictedFrom.MEAN:
            return mean_of_words(hidden_BLC, tokens_BL)
        if self.fine_tuned.pool is PredictedFrom.VARYING:
            return hidden_BLC[:, list(self.fine_tuned.varying)].flatten(1)
        if self.shape is not Shape.DECODER:
            return hidden_BLC[:, 0]
        last_B11 = (tokens_BL != PAD).sum(-1).sub(1)[:, None, None]
        return hidden_BLC.gather(1, last_B11.expand(-1, 1, hidden_BLC.shape[-1]))[:, 0]


def _layer(channels: int, hidden: int, width: int) -> nn.Module:
    """From channels to the outputs of a target, which are 0 before training."""
    output = nn.Linear(hidden or channels, width)
    nn.init.zeros_(output.weight)
    nn.init.zeros_(output.bias)
    if not hidden:
        return output
    widen = nn.Linear(channels, hidden)
    # Small, so that training begins near a linear model: mutants that are left out are predicted better.
    nn.init.normal_(widen.weight, std=FIRST_SPREAD)
    return nn.Sequential(widen, nn.GELU(), output)


def require_length(
    tokens: Sequence[NDArray[np.integer]], names: Sequence[str], num_tokens: int, path: Path
) -> None:
    """Raises: FormatError naming a sequence that has not `num_tokens` tokens."""
    for each, name in zip(tokens, names, strict=True):
        if len(each) != num_tokens:
            raise FormatError(
                f"{path}: {name}: is {len(each):,} tokens long, special ones counted, and not {num_tokens:,}; for "
                "pool = 'varying' all sequences of training and prediction are equally long"
            )


def is_word(tokens: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which tokens are words, known or not."""
    return ~np.isin(tokens, (PAD, CLS, EOS, MASK))


def mean_of_words(channels_BLC: Tensor, tokens_BL: Tensor) -> Tensor:
    """Mean over the words of each sequence, `<cls>`, `<eos>` and padding left out: (B, C)."""
    is_word_BL = torch.from_numpy(is_word(tokens_BL.cpu().numpy()))
    share_BL = is_word_BL.float() / is_word_BL.sum(-1, keepdim=True)
    return torch.einsum("blc,bl->bc", channels_BLC, share_BL.to(channels_BLC.device))
