"""From treatments to vectors (one each) and tokens (several each).

Shape suffixes: T treatments, F category columns, N number columns, M tokens, C channels.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary


class IdEncoder(nn.Module):
    """Each training treatment has its own learned tokens; its embedding is their sum."""

    def __init__(self, num_treatments: int, channels: int, num_tokens: int) -> None:
        super().__init__()
        # The embedding is the sum of the tokens; this makes its first entries of size 1 whatever their number.
        self.tokens_TMC = nn.Parameter(torch.randn(num_treatments, num_tokens, channels) * num_tokens**-0.5)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, M, C); an unknown treatment gets those of the first, which the caller replaces."""
        return self.tokens_TMC[treatments.index_T.clamp(min=0)]


class NumberEncoder(nn.Module):
    """Maps each number to a smooth curve in C dimensions, so that doses and times between and slightly beyond the
    training values have an embedding; a missing number gives zeros."""

    def __init__(self, num_numbers: int, channels: int) -> None:
        super().__init__()
        # A number and whether it is known come in.
        self.weight_N2C = nn.Parameter(torch.randn(num_numbers, 2, channels))
        self.bias_NC = nn.Parameter(torch.randn(num_numbers, channels))
        self.output = nn.Linear(channels, channels)

    def forward(self, numbers_TN: Tensor, present_TN: Tensor) -> Tensor:
        """(T, N) numbers and 1 where they are known → (T, N, C)."""
        pairs_TN2 = torch.stack([numbers_TN, present_TN], dim=-1)
        hidden_TNC = F.gelu(torch.einsum("tni,nic->tnc", pairs_TN2, self.weight_N2C) + self.bias_NC)
        curves_TNC: Tensor = self.output(hidden_TNC)
        return curves_TNC * present_TN.unsqueeze(-1)


class FeatureEncoder(nn.Module):
    """One token per category column, one per number column."""

    def __init__(self, vocabulary: TreatmentVocabulary, channels: int) -> None:
        super().__init__()
        self.categories = nn.ModuleList()
        for values in vocabulary.categories.values():
            vectors = nn.Embedding(len(values) + 1, channels)
            with torch.no_grad():
                vectors.weight[0] = 0  # missing says nothing, unless training shows what it says
            self.categories.append(vectors)
        self.numbers = NumberEncoder(len(vocabulary.numbers), channels)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, F + N, C)."""
        tokens = [embed(treatments.categories_TF[:, f, None]) for f, embed in enumerate(self.categories)]
        return torch.cat([*tokens, self.numbers(treatments.numbers_TN, treatments.present_TN)], dim=1)


class TreatmentEncoder(nn.Module):
    """The encoder that the configuration names, with the unconditional token."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary, num_tokens: int) -> None:
        super().__init__()
        channels = config.treatment_channels
        self.encoder: IdEncoder | FeatureEncoder
        if config.treatment_encoder is TreatmentEncoding.ID:
            self.encoder = IdEncoder(len(vocabulary.names), channels, num_tokens)
            self.num_tokens = num_tokens
        else:
            self.encoder = FeatureEncoder(vocabulary, channels)
            self.num_tokens = len(vocabulary.categories) + len(vocabulary.numbers)
        self.unconditional_MC = (
            nn.Parameter(torch.zeros(self.num_tokens, channels)) if config.unconditional else None
        )
        # Features add up, so their sum is brought back to one size; ids are free to take any.
        by_id = config.treatment_encoder is TreatmentEncoding.ID
        self.normalise = nn.Identity() if by_id else nn.LayerNorm(channels)

    def tokens(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, M, C) of T treatments."""
        tokens_TMC: Tensor = self.encoder(treatments)
        if self.unconditional_MC is not None:
            tokens_TMC = torch.where(
                treatments.unconditional_T[:, None, None], self.unconditional_MC, tokens_TMC
            )
        return tokens_TMC

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Embeddings (T, C)."""
        embeddings: Tensor = self.normalise(self.tokens(treatments).sum(dim=1))
        return embeddings
