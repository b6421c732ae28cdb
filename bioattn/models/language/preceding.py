"""What a token is told of the tokens right before it and of its phase, before any attention.

Shape suffixes: B sequences, L tokens, C channels.
"""

import torch
from torch import Tensor, nn

from bioattn.errors import SettingsError
from bioattn.models.language.config import LanguageModelConfig
from bioattn.sequences.vocabulary import SPECIAL

MAX_NGRAMS = 1 << 20
"""Most n-grams with a vector of their own."""
FIRST_SPREAD = 0.02
"""Standard deviation of the vectors before training, as that of token embeddings."""


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
        self.phase_PC = (
            nn.Parameter(torch.randn(config.period, config.channels) * FIRST_SPREAD)
            if config.period
            else None
        )

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
