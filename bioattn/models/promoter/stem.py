"""From nucleotide codes to bins of motif matches: filters, k-mer vectors, or both.

Shape suffixes: B promoters, L bases, C channels, K k-mers, P bins.
"""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.models.promoter.batch_part import uniform_like
from bioattn.models.promoter.best_match import best_match
from bioattn.models.promoter.config import Activation, PromoterModelConfig, Stem
from bioattn.promoters.kmers import canonical_columns

AMBIGUOUS = 4
"""Code of N, of padding and of masked bases."""


def one_hot(codes_BL: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 codes (B, L) → (B, 4, L); N is all zeros."""
    bases = torch.arange(4, device=codes_BL.device, dtype=codes_BL.dtype)
    return (codes_BL.unsqueeze(1) == bases[:, None]).to(dtype)


class Exponential(nn.Module):
    """exp(x), the first-layer activation of Koo & Ploenzke 2021 (kept finite)."""

    def forward(self, x: Tensor) -> Tensor:
        """Values of any shape → values of the same shape."""
        return torch.exp(x.clamp(max=8.0))


def make_activation(name: Activation) -> nn.Module:
    """The module called `name`."""
    match name:
        case Activation.RELU:
            return nn.ReLU()
        case Activation.GELU:
            return nn.GELU()
        case Activation.EXPONENTIAL:
            return Exponential()


def padded_to_bins(codes_BL: Tensor, config: PromoterModelConfig) -> Tensor:
    """Codes with N added upstream until they fill whole bins, so that the last bin ends at the anchor."""
    missing = config.num_bins * config.pool - config.length
    return F.pad(codes_BL, (missing, 0), value=AMBIGUOUS) if missing else codes_BL


def known_bins(codes_BL: Tensor, pool: int) -> Tensor:
    """Codes of whole bins (B, P·pool) → bool (B, P), True where a bin holds at least one known base."""
    return (codes_BL.view(len(codes_BL), -1, pool) < AMBIGUOUS).any(-1)


class ConvStem(nn.Module):
    """One convolution over the one-hot sequence, its best match per bin, normalised."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        self.config = config
        self.receptive_field = config.pool + config.kernel - 1
        self.both_strands = config.both_strands
        self.convolution = nn.Conv1d(4, config.channels, config.kernel)  # holds the filters; see best_match
        self.activation = make_activation(config.activation)
        self.normalise = nn.GroupNorm(1, config.channels)

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, L) → features (B, P, C) and mask (B, P), True where a bin holds at least one known base.

        bases_BL4: replace the one-hot bases of the codes, differentiable; the mask is that of the codes.
        """
        codes_BL = padded_to_bins(codes_BL, self.config)
        bases_BL4 = (
            one_hot(codes_BL).transpose(1, 2)
            if bases_BL4 is None
            else F.pad(bases_BL4, (0, 0, codes_BL.shape[1] - bases_BL4.shape[1], 0))
        )
        filters_F4K = self.convolution.weight
        if self.both_strands:
            # A, C, G, T = 0..3, so flipping bases and positions is the reverse complement of the filter.
            filters_F4K = torch.cat([filters_F4K, filters_F4K.flip(1, 2)])
        best_BPC = best_match(bases_BL4, filters_F4K, self.config.pool)
        if self.both_strands:
            best_BPC = torch.maximum(*best_BPC.chunk(2, dim=-1))
        # Bias and activation come after the maximum: where the activation is monotone nothing changes.
        bias_C = self.convolution.bias
        assert bias_C is not None
        features_BPC = self.activation(best_BPC + bias_C)
        features_BPC = self.normalise(features_BPC.transpose(1, 2)).transpose(1, 2)
        return features_BPC, known_bins(codes_BL, self.config.pool)


class BinMixer(nn.Module):
    """Convolutions over bins: the effect of a motif depends on its neighbours.

    With `residual` each convolution is added to its input, so that a bin keeps its own features.
    """

    def __init__(self, channels: int, kernel: int, num_layers: int, *, residual: bool = True) -> None:
        super().__init__()
        self.residual = residual
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in range(num_layers)
        )
        self.normalisations = nn.ModuleList(nn.GroupNorm(1, channels) for _ in range(num_layers))

    def forward(self, features_BPC: Tensor) -> Tensor:
        """Bins (B, P, C) → mixed bins (B, P, C)."""
        features_BCP = features_BPC.transpose(1, 2)
        for convolution, normalise in zip(self.convolutions, self.normalisations, strict=True):
            mixed_BCP = F.gelu(normalise(convolution(features_BCP)))
            features_BCP = features_BCP + mixed_BCP if self.residual else mixed_BCP
        return features_BCP.transpose(1, 2)


EXPECTED_ELEMENTS = 1 << 22
"""Probabilities of k-mers in memory at once: there are 4^k at every base."""


class KmerStem(nn.Module):
    """A bin sums the vectors of the k-mers centred in it; a k-mer and its reverse complement share one vector.

    With attention that depends on position alone this is k-mer regression, so a network on top can start from the
    best simple models. k-mers with an ambiguous base add 0.
    """

    column: Tensor

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        self.config = config
        self.receptive_field = config.pool + config.kmer - 1
        # By NumPy: the content is needed on torch's meta device, too.
        columns = canonical_columns(config.kmer) if config.both_strands else np.arange(4**config.kmer)
        self.num_columns = int(columns.max()) + 1
        # One column more, all zero: k-mers that count nothing.
        column = torch.from_numpy(np.append(columns, self.num_columns))
        self.register_buffer("column", column, persistent=False)
        self.vectors = nn.EmbeddingBag(
            self.num_columns + 1, config.channels, mode="sum", padding_idx=self.num_columns
        )
        nn.init.normal_(self.vectors.weight, std=config.pool**-0.5)
        with torch.no_grad():
            self.vectors.weight[self.num_columns] = 0

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, L) → features (B, P, C) and mask (B, P), True where a bin holds at least one known base.

        bases_BL4: probabilities of bases that replace the codes (`expected_bins`); the mask is that of the codes.
        """
        codes_BL = padded_to_bins(codes_BL, self.config)
        if bases_BL4 is not None:
            padded_BL4 = F.pad(bases_BL4, (0, 0, codes_BL.shape[1] - bases_BL4.shape[1], 0))
            return self.expected_bins(padded_BL4), known_bins(codes_BL, self.config.pool)
        columns_BL = self.kmer_columns(codes_BL)
        keep = 1.0
        if self.training and self.config.kmer_dropout:
            keep = 1 - self.config.kmer_dropout
            left_out_BL = uniform_like(columns_BL.float()) >= keep
            columns_BL = columns_BL.masked_fill(left_out_BL, self.num_columns)
        sums = self.vectors(columns_BL.reshape(-1, self.config.pool)) / keep
        bins_BPC = sums.view(len(codes_BL), -1, sums.shape[-1])
        return bins_BPC, known_bins(codes_BL, self.config.pool)

    def expected_bins(self, bases_BL4: Tensor) -> Tensor:
        """Bins (B, P, C) of bases with probabilities (B, L, 4), L whole bins: the mean of what the lookup gives
        for sequences with independent bases. On one-hot bases that is the lookup itself; it is differentiable.
        """
        k = self.config.kmer
        padded_BX4 = F.pad(bases_BL4, (0, 0, k // 2, k - 1 - k // 2))
        windows_Nk4 = padded_BX4.unfold(1, k, 1).transpose(2, 3).reshape(-1, k, 4)
        vectors_KC = self.vectors.weight[self.column[: 4**k]]
        step = max(self.config.pool, EXPECTED_ELEMENTS // 4**k // self.config.pool * self.config.pool)
        sums = [
            checkpoint(_expected_sums, part_Nk4, vectors_KC, self.config.pool, use_reentrant=False)
            for part_Nk4 in windows_Nk4.split(step)
        ]
        return torch.cat(sums).view(len(bases_BL4), -1, vectors_KC.shape[1])

    def kmer_columns(self, codes_BL: Tensor) -> Tensor:
        """The column of the k-mer centred at each base (B, L); the empty column where there is none."""
        k = self.config.kmer
        return self.columns_within(F.pad(codes_BL, (k // 2, k - 1 - k // 2), value=AMBIGUOUS))

    def columns_within(self, codes_BL: Tensor) -> Tensor:
        """The column of each k-mer that lies in the codes (B, L) as a whole, (B, L - k + 1)."""
        k = self.config.kmer
        windows_BLk = codes_BL.long().unfold(-1, k, 1)
        place_k = 4 ** torch.arange(k - 1, -1, -1, device=codes_BL.device)
        index_BL = (windows_BLk.clamp(max=3) * place_k).sum(-1)
        unknown_BL = (windows_BLk == AMBIGUOUS).any(-1)
        columns_BL: Tensor = self.column[index_BL.masked_fill(unknown_BL, 4**k)]
        return columns_BL


def _expected_sums(windows_Nk4: Tensor, vectors_KC: Tensor, pool: int) -> Tensor:
    """Probabilities of the bases around N positions → the sum of the expected vectors of each `pool` of them."""
    probability_NK = windows_Nk4[:, 0]
    for place in range(1, windows_Nk4.shape[1]):
        probability_NK = (probability_NK[:, :, None] * windows_Nk4[:, place, None]).flatten(1)
    # Summed before the product, which is linear: one row a bin and not one a base.
    sums: Tensor = probability_NK.unflatten(0, (-1, pool)).sum(1) @ vectors_KC
    return sums


class BothStem(nn.Module):
    """The first half of the channels sums k-mer vectors; the second half matches filters over the same bins.

    Sums of k-mers can start from a k-mer ridge regression and predict what is specific to a treatment. The best
    match of a filter is not a sum; it predicts more of what all treatments share. On yeast each misses what the
    other has.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        half = config.channels // 2
        self.config = config
        self.kmers = KmerStem(replace(config, channels=half, stem=Stem.KMER))
        self.filters = ConvStem(replace(config, channels=half, stem=Stem.CONV))
        self.receptive_field = max(self.kmers.receptive_field, self.filters.receptive_field)

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, L) → features (B, P, C) and mask (B, P), as each stem has them."""
        kmers_BPC, known_BP = self.kmers(codes_BL, bases_BL4)
        filters_BPC, _ = self.filters(codes_BL, bases_BL4)
        return torch.cat([kmers_BPC, filters_BPC], dim=-1), known_BP
