"""From treatments to vectors (one each) and tokens (several each), and from a context to one number per treatment.

With kernel attention a training treatment has learned tokens, and those of another one are their mean, weighted
by a Gaussian of the distance of features and molecules (Nadaraya 1964, Watson 1964). The widths are those with
which each training treatment's responses are best told by the others (leave-one-out).

Shape suffixes: B promoters, T treatments, N number columns or measured (training) treatments, F category columns,
K columns, D features, M tokens, C channels, E treatment channels, H hidden channels, G genes.
"""

import itertools

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.score import GaussianScore
from bioattn.models.molecule_layers import GraphBatch, make_encoder
from bioattn.models.molecule_settings import MoleculeEncoderConfig
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.layers import drop_channels
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.molecules.graphs import BOND_CODES
from bioattn.molecules.similarity import tanimoto


class IdEncoder(nn.Module):
    """Each training treatment has its own learned tokens; its embedding is their sum."""

    def __init__(self, num_treatments: int, channels: int, num_tokens: int) -> None:
        super().__init__()
        # The embedding is the sum of the tokens; this makes its first entries of size 1 whatever their number.
        self.tokens_TMC = nn.Parameter(
            torch.randn(num_treatments, num_tokens, channels).mul_(num_tokens**-0.5)
        )

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


MANY_NUMBERS = 32
"""More columns than this are one vector, such as the expression of regulators: a curve each would overfit."""


class VectorEncoder(nn.Module):
    """Maps many numbers to one token through few directions; columns are dropped in training. A missing number
    counts as the mean of its column."""

    def __init__(self, num_numbers: int, channels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.directions = nn.Linear(num_numbers, channels // 2, bias=False)
        self.output = nn.Linear(channels // 2, channels)

    def forward(self, numbers_TN: Tensor, _present_TN: Tensor) -> Tensor:
        """(T, N) standardised numbers → (T, 1, C)."""
        kept_TN = F.dropout(numbers_TN, self.dropout, self.training)
        token_TC: Tensor = self.output(F.gelu(self.directions(kept_TN)))
        return token_TC[:, None]


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
    """One token per category column, one per number column (of `MANY_NUMBERS` one together), and one for the
    molecule where there is one."""

    def __init__(self, vocabulary: TreatmentVocabulary, channels: int, dropout: float) -> None:
        super().__init__()
        self.categories = nn.ModuleList()
        for values in vocabulary.categories.values():
            vectors = nn.Embedding(len(values) + 1, channels)
            with torch.no_grad():
                vectors.weight[0] = 0  # missing says nothing, unless training shows what it says
            self.categories.append(vectors)
        number = len(vocabulary.numbers)
        many = number > MANY_NUMBERS
        self.numbers = VectorEncoder(number, channels, dropout) if many else NumberEncoder(number, channels)
        self.num_tokens = len(self.categories) + (1 if many else number) + (vocabulary.smiles is not None)
        self.molecule = None if vocabulary.smiles is None else MoleculeToken(channels)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, M, C)."""
        tokens = [embed(treatments.categories_TF[:, f, None]) for f, embed in enumerate(self.categories)]
        tokens += [] if self.molecule is None else [self.molecule(treatments)]
        return torch.cat([*tokens, self.numbers(treatments.numbers_TN, treatments.present_TN)], dim=1)


class TreatmentEncoder(nn.Module):
    """The encoder that the configuration names, with the unconditional token."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary, num_tokens: int) -> None:
        super().__init__()
        channels = config.treatment_channels
        self.encoder: IdEncoder | FeatureEncoder
        match config.treatment_encoder:
            case TreatmentEncoding.ID:
                self.encoder = IdEncoder(len(vocabulary.names), channels, num_tokens)
            case TreatmentEncoding.KERNEL:
                self.encoder = KernelEncoder(vocabulary, channels, num_tokens)
            case _:
                self.encoder = FeatureEncoder(vocabulary, channels, config.dropout)
                num_tokens = self.encoder.num_tokens
        self.unconditional_MC = (
            nn.Parameter(torch.zeros(num_tokens, channels)) if config.unconditional else None
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
        share = self.dropout if self.training else 0.0
        context_BTH = self.from_context(drop_channels(self.normalise(context_BTC), share))
        hidden_BTH = F.gelu(context_BTH + self.from_treatment(treatments_TE))
        hidden_BTH = drop_channels(hidden_BTH, share)
        hidden_BT = (hidden_BTH * self.hidden_reader(treatments_TE)).sum(-1) * self.hidden_scale
        offset_T: Tensor = self.offset(treatments_TE).squeeze(-1)
        answer_BT: Tensor = linear_BT + hidden_BT + offset_T
        return answer_BT


WIDTHS = np.geomspace(0.05, 20.0, 25)
"""Tried by leave-one-out; another category lies at the distance 1, a number as many standard deviations away."""


class KernelEncoder(IdEncoder):
    """Tokens of training treatments; of others the mean of theirs, weighted by likeness."""

    def __init__(self, vocabulary: TreatmentVocabulary, channels: int, num_tokens: int) -> None:
        super().__init__(len(vocabulary.names), channels, num_tokens)
        number = len(vocabulary.names)
        self.sizes = [len(values) + 1 for values in vocabulary.categories.values()]
        features = sum(self.sizes) + 2 * len(vocabulary.numbers) + 1
        self.measured_ND: Tensor
        self.measured_bits: Tensor
        self.register_buffer("measured_ND", torch.zeros(number, features))
        self.register_buffer(
            "measured_bits", torch.zeros(number, vocabulary.bytes_of_molecule, dtype=torch.uint8)
        )
        self.score = GaussianScore(1, features)
        self.score.width_HD.requires_grad_(False)
        self.molecule_width: Tensor
        self.register_buffer("molecule_width", torch.ones(()))

    @torch.no_grad()
    def remember(self, treatments: TreatmentBatch, responses_NG: NDArray[np.floating]) -> None:
        """Keep the training treatments' features, and choose the widths by their responses (NaN = missing)."""
        self.measured_ND.copy_(self._features(treatments))
        self.measured_bits.copy_(treatments.bits_TB)
        groups = self._groups(len(treatments.numbers_TN[0]))
        distance_KNN = [
            np.square(each[:, None] - each).sum(-1)
            for each in (self.measured_ND[:, group].double().cpu().numpy() for group in groups)
        ]
        if self.measured_bits.shape[1]:
            bits = self.measured_bits.cpu().numpy()
            distance_KNN.append(2 * (1 - tanimoto(bits, bits)))
        width_K = chosen_widths(np.array(distance_KNN), responses_NG)
        for group, width in zip(groups, width_K, strict=False):
            self.score.width_HD[:, group] = 1 / width
        if self.measured_bits.shape[1]:
            self.molecule_width.fill_(width_K[-1])

    def weights(self, treatments: TreatmentBatch) -> Tensor:
        """What each measured treatment counts for each treatment (T, N); a measured one is itself."""
        bias_TN = None
        if self.measured_bits.shape[1]:
            similar_TN = tanimoto(treatments.bits_TB.cpu().numpy(), self.measured_bits.cpu().numpy())
            bias_TN = (torch.from_numpy(similar_TN) - 1).to(self.measured_ND) / self.molecule_width**2
        like_TN = attention_weights(
            self._features(treatments)[None], self.measured_ND[None], score=self.score, bias=bias_TN
        )[0]
        own_TN = F.one_hot(treatments.index_T.clamp(min=0), len(self.measured_ND)).to(like_TN)
        return torch.where((treatments.index_T >= 0)[:, None], own_TN, like_TN)

    def forward(self, treatments: TreatmentBatch) -> Tensor:
        """Tokens (T, M, C)."""
        return torch.einsum("tn,nmc->tmc", self.weights(treatments), self.tokens_TMC)

    def _features(self, treatments: TreatmentBatch) -> Tensor:
        """Features as vectors (T, D) whose squared distance is 1 for another category, or for a number that one
        treatment has and the other has not."""
        parts = [
            F.one_hot(treatments.categories_TF[:, f], size).float() * 0.5**0.5
            for f, size in enumerate(self.sizes)
        ]
        both = torch.stack([treatments.numbers_TN, treatments.present_TN], dim=-1).flatten(1)
        nothing_T1 = both.new_zeros(len(both), 1)  # without columns, molecules alone count
        return torch.cat([*parts, both, nothing_T1], dim=1)

    def _groups(self, numbers: int) -> list[slice]:
        """The places of each column in the vectors; many numbers are one group."""
        widths = [2 * numbers] if numbers > MANY_NUMBERS else [2] * numbers
        ends = np.cumsum([0, *self.sizes, *widths]).tolist()
        return [slice(first, last) for first, last in itertools.pairwise(ends)]


def kernel_encoder(model: nn.Module) -> KernelEncoder | None:
    """The kernel encoder of a promoter model; None where treatments are known otherwise."""
    return next((module for module in model.modules() if isinstance(module, KernelEncoder)), None)


def chosen_widths(squared_KNN: NDArray[np.float64], responses_NG: NDArray[np.floating]) -> list[float]:
    """The width of each feature with the least leave-one-out error, one after the other, twice.

    squared_KNN: squared distances of treatments by each feature.
    """
    means_N1 = np.nanmean(responses_NG, axis=1, keepdims=True)
    filled_NG = np.where(np.isfinite(responses_NG), responses_NG, means_N1).astype(np.float64)
    gram_NN = filled_NG @ filled_NG.T
    width_K = np.full(len(squared_KNN), float(WIDTHS[len(WIDTHS) // 2]))

    def error(width_K: NDArray[np.float64]) -> float:
        logits_NN = -0.5 * np.tensordot(1 / width_K**2, squared_KNN, 1)
        np.fill_diagonal(logits_NN, -np.inf)
        weights_NN = np.exp(logits_NN - logits_NN.max(1, keepdims=True))
        missed_NN = np.eye(len(gram_NN)) - weights_NN / weights_NN.sum(1, keepdims=True)
        return float(np.einsum("ni,ij,nj->", missed_NN, gram_NN, missed_NN, optimize=True))

    for feature in [*range(len(width_K))] * 2 if len(gram_NN) > 1 else []:
        tried = []
        for width in WIDTHS:
            width_K[feature] = width
            tried.append(error(width_K))
        width_K[feature] = WIDTHS[int(np.argmin(tried))]
    found: list[float] = width_K.tolist()
    return found
