"""From treatments to vectors (one each) and tokens (several each), and from a context to one number per treatment.

Shape suffixes: B promoters, T treatments, F category columns, N number columns, M tokens, C channels, E treatment
channels, H hidden channels.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.molecule_layers import GraphBatch, make_encoder
from bioattn.models.molecule_settings import MoleculeEncoderConfig
from bioattn.models.promoter.batch_part import drop_channels
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.molecules.graphs import BOND_CODES


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


class MoleculeToken(nn.Module):
    """What atoms of a treatment's molecule write (`bioattn.models.molecule_layers`), as a token; 0 without one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        config = MoleculeEncoderConfig(channels=32, slots=64, dropout=0.0)
        self.encoder = make_encoder(config)
        self.output = nn.Linear(config.slots, channels, bias=False)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """(T, 1, C)."""
        known_TA = treatments.atoms_TAF[..., 0] > 0
        kinds_TAK = F.one_hot(treatments.bonds_TAA, BOND_CODES + 1).sum(2)[..., 1:].float()
        graphs = GraphBatch(
            (treatments.atoms_TAF - 1).clamp(min=0), treatments.bonds_TAA, kinds_TAK, known_TA
        )
        written_TS = self.encoder(graphs).sum((1, 2)) / known_TA.sum(1).clamp(min=1)[:, None]
        token_TC: Tensor = self.output(written_TS)
        return token_TC[:, None]


class FeatureEncoder(nn.Module):
    """One token per category column, one per number column, and one for the molecule where there is one."""

    def __init__(self, vocabulary: TreatmentVocabulary, channels: int) -> None:
        super().__init__()
        self.categories = nn.ModuleList()
        for values in vocabulary.categories.values():
            vectors = nn.Embedding(len(values) + 1, channels)
            with torch.no_grad():
                vectors.weight[0] = 0  # missing says nothing, unless training shows what it says
            self.categories.append(vectors)
        self.numbers = NumberEncoder(len(vocabulary.numbers), channels)
        self.molecule = None if vocabulary.smiles is None else MoleculeToken(channels)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, F + N, C), with molecules (T, F + N + 1, C)."""
        tokens = [embed(treatments.categories_TF[:, f, None]) for f, embed in enumerate(self.categories)]
        tokens += [] if self.molecule is None else [self.molecule(treatments)]
        return torch.cat([*tokens, self.numbers(treatments.numbers_TN, treatments.present_TN)], dim=1)


class TreatmentEncoder(nn.Module):
    """The encoder that the configuration names, with the unconditional token."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary, num_tokens: int) -> None:
        super().__init__()
        channels = config.treatment_channels
        self.encoder: IdEncoder | FeatureEncoder
        if config.treatment_encoder.by_name:
            from bioattn.models.promoter.treatment_kernel import KernelEncoder

            by_name = config.treatment_encoder is TreatmentEncoding.ID
            self.encoder = (
                IdEncoder(len(vocabulary.names), channels, num_tokens)
                if by_name
                else KernelEncoder(vocabulary, channels, num_tokens)
            )
            self.num_tokens = num_tokens
        else:
            self.encoder = FeatureEncoder(vocabulary, channels)
            self.num_tokens = (
                len(vocabulary.categories) + len(vocabulary.numbers) + (vocabulary.smiles is not None)
            )
        self.unconditional_MC = (
            nn.Parameter(torch.zeros(self.num_tokens, channels)) if config.unconditional else None
        )
        # Features add up, so their sum is brought back to one size; ids are free to take any.
        by_id = isinstance(self.encoder, IdEncoder)
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


class TreatmentReadout(nn.Module):
    """Dot product of the context with a vector of the treatment, directly and through a shared hidden layer.

    The product lets one feature raise the response to one treatment and lower the response to another; a sum of
    context and treatment could not. The linear path uses the context as it is, so weak evidence gives a small
    prediction.
    """

    def __init__(
        self, context_channels: int, treatment_channels: int, hidden_channels: int, dropout: float
    ) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(context_channels)
        self.dropout = dropout
        self.from_context = nn.Linear(context_channels, hidden_channels)
        self.from_treatment = nn.Linear(treatment_channels, hidden_channels, bias=False)
        self.hidden_reader = nn.Linear(treatment_channels, hidden_channels)
        self.linear_reader = nn.Linear(treatment_channels, context_channels)
        self.offset = nn.Linear(treatment_channels, 1)
        self.hidden_scale = hidden_channels**-0.5
        self.linear_scale = context_channels**-0.5

    def forward(self, context_BTC: Tensor, treatments_TE: Tensor) -> Tensor:
        """Context (B, T, C), or (B, 1, C) where it is the same for all, and embeddings (T, E) → (B, T)."""
        linear_BT = (context_BTC * self.linear_reader(treatments_TE)).sum(-1) * self.linear_scale
        context_BTH = self.from_context(self._drop(self.normalise(context_BTC)))
        hidden_BTH = self._drop(F.gelu(context_BTH + self.from_treatment(treatments_TE)))
        hidden_BT = (hidden_BTH * self.hidden_reader(treatments_TE)).sum(-1) * self.hidden_scale
        offset_T: Tensor = self.offset(treatments_TE).squeeze(-1)
        answer_BT: Tensor = linear_BT + hidden_BT + offset_T
        return answer_BT

    def _drop(self, features_BTC: Tensor) -> Tensor:
        return drop_channels(features_BTC, self.dropout) if self.training and self.dropout else features_BTC
