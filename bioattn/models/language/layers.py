"""Parts of a language model beside its blocks: n-grams and phases of tokens, the output layers of fine-tuning,
and low-rank adapters (Hu et al. 2021).

Shape suffixes: B sequences, L tokens, C channels, W outputs of a target.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.errors import FormatError, SettingsError
from bioattn.models.language.config import FineTuned, LanguageModelConfig, PredictedFrom, Shape, TargetKind
from bioattn.sequences.vocabulary import CLS, EOS, MASK, PAD, SPECIAL

MAX_NGRAMS = 1 << 20
"""Most n-grams with a vector of their own."""
FIRST_SPREAD = 0.02
"""Standard deviation of embeddings and of a hidden layer's weights before training (GPT-2): logits of the tied
output begin small."""
ADDED = ".parametrizations.weight"


class PrecedingTokens(nn.Module):
    """Vectors of the n-gram that ends at each token (Huang et al. 2025) and of the token's phase.

    With them the first layer knows what a Markov chain of order n − 1 knows, and attention is free to find what
    lies farther off, such as the reading frame.
    """

    def __init__(self, config: LanguageModelConfig, num_words: int) -> None:
        """num_words: tokens of the vocabulary that are words.

        Raises: SettingsError when there are too many n-grams.
        """
        super().__init__()
        self.ngram, self.num_words = config.ngram, num_words
        number = num_words**config.ngram
        if number > MAX_NGRAMS:
            raise SettingsError(
                f"ngram is {config.ngram}: {num_words} words make {number:,} of them; "
                f"at most {MAX_NGRAMS:,} are learned"
            )
        self.embed = nn.Embedding(number + 1, config.channels) if config.ngram > 1 else None
        if self.embed is not None:
            nn.init.normal_(self.embed.weight, std=FIRST_SPREAD)
        self.phase_PC = None
        if config.period:
            self.phase_PC = nn.Parameter(torch.randn(config.period, config.channels).mul_(FIRST_SPREAD))

    def forward(
        self, tokens_BL: Tensor, *, earlier_BE: Tensor | None = None, first: int = 0
    ) -> Tensor | float:
        """What is added to the embeddings of tokens (B, L) at the positions from `first` on: (B, L, C).

        earlier_BE: the tokens before them. An n-gram that holds a special token, or begins before the first one,
        has the last vector.
        """
        added: Tensor | float = 0.0
        length = tokens_BL.shape[1]
        if self.embed is not None:
            tokens_BT = tokens_BL if earlier_BE is None else torch.cat([earlier_BE, tokens_BL], dim=1)
            words_BT = nn.functional.pad(tokens_BT - len(SPECIAL), (self.ngram - 1, 0), value=-1)
            spans = words_BT.unfold(1, self.ngram, 1)[:, -length:]
            place = self.num_words ** torch.arange(self.ngram - 1, -1, -1, device=tokens_BL.device)
            known_BL = ((spans >= 0) & (spans < self.num_words)).all(-1)
            added = self.embed(torch.where(known_BL, (spans * place).sum(-1), self.num_words**self.ngram))
        if self.phase_PC is not None:
            position_L = torch.arange(first, first + length, device=tokens_BL.device)
            added = added + self.phase_PC[position_L % len(self.phase_PC)]
        return added


class Readout(nn.Module):
    """A linear layer for each target, or one with a hidden layer, on channels behind the last block."""

    def __init__(self, channels: int, shape: Shape, fine_tuned: FineTuned) -> None:
        super().__init__()
        self.fine_tuned = fine_tuned
        self.shape = shape
        pooled = channels * max(1, len(fine_tuned.varying))
        self.layers = nn.ModuleList(
            _layer(channels if target.kind is TargetKind.TAGS else pooled, fine_tuned, target.width)
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
            is_word_BL = torch.from_numpy(is_word(tokens_BL.cpu().numpy()))
            share_BL = is_word_BL.float() / is_word_BL.sum(-1, keepdim=True)
            return torch.einsum("blc,bl->bc", hidden_BLC, share_BL.to(hidden_BLC.device))
        if self.fine_tuned.pool is PredictedFrom.VARYING:
            return hidden_BLC[:, list(self.fine_tuned.varying)].flatten(1)
        if self.shape is not Shape.DECODER:
            return hidden_BLC[:, 0]
        last_B11 = (tokens_BL != PAD).sum(-1).sub(1)[:, None, None]
        return hidden_BLC.gather(1, last_B11.expand(-1, 1, hidden_BLC.shape[-1]))[:, 0]


def _layer(channels: int, fine_tuned: FineTuned, width: int) -> nn.Module:
    """From channels to the outputs of a target, which are 0 before training."""
    hidden = fine_tuned.readout_channels
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


class LowRank(nn.Module):
    """Adds alpha / rank · `up` · `down` to a matrix; before training that is 0."""

    def __init__(self, matrix_OI: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = matrix_OI.shape
        self.scale = alpha / rank
        self.down_RI = nn.Parameter(matrix_OI.new_empty(rank, columns))
        self.up_OR = nn.Parameter(matrix_OI.new_zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down_RI, a=math.sqrt(5))

    def forward(self, matrix_OI: Tensor) -> Tensor:
        return matrix_OI + self.scale * (self.up_OR @ self.down_RI)
