"""From nucleotide codes to bins: filters, k-mer vectors or patches, with or without self-attention, or what a
pretrained model makes of them (`STEMS`).

Shape suffixes: B promoters, L bases, C channels, K k-mers, P bins.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.attention.capture import no_capture
from bioattn.attention.multi_head import TransformerLayer
from bioattn.attention.position import AddedPositions
from bioattn.attention.site import AttentionSite, Axis
from bioattn.errors import BioattnError
from bioattn.inference.runner import BinEncoder
from bioattn.models.family import ability, family
from bioattn.models.promoter.config import PromoterModelConfig, Stem
from bioattn.models.promoter.layers import best_match, uniform_like
from bioattn.promoters.kmers import canonical_columns

AMBIGUOUS = 4
"""Code of N, of padding and of masked bases."""


def one_hot(codes_BL: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 codes (B, L) → (B, 4, L); N is all zeros."""
    bases = torch.arange(4, device=codes_BL.device, dtype=codes_BL.dtype)
    return (codes_BL.unsqueeze(1) == bases[:, None]).to(dtype)


def kmer_numbers(codes_BL: Tensor, k: int) -> Tensor:
    """The number of each k-mer that lies in the codes (B, L) as a whole, (B, L - k + 1): its codes as digits, the
    first base highest; 4^k for one with an unknown base."""
    windows_BLk = codes_BL.long().unfold(-1, k, 1)
    place_k = 4 ** torch.arange(k - 1, -1, -1, device=codes_BL.device)
    number_BL = (windows_BLk.clamp(max=3) * place_k).sum(-1)
    return number_BL.masked_fill((windows_BLk >= AMBIGUOUS).any(-1), 4**k)


def padded_to_bins(codes_BL: Tensor, config: PromoterModelConfig) -> Tensor:
    """Codes with N added upstream until they fill whole bins, so that the last bin ends at the anchor."""
    return F.pad(codes_BL, (config.missing_bases, 0), value=AMBIGUOUS)


def known_bins(codes_BL: Tensor, config: PromoterModelConfig) -> Tensor:
    """Codes → bool (B, P), True where a bin holds at least one known base."""
    padded_BL = padded_to_bins(codes_BL, config)
    return (padded_BL.view(len(padded_BL), -1, config.pool) < AMBIGUOUS).any(-1)


class BinStem(nn.Module):
    """What all stems have in common: codes become bins, and bins may learn of each other.

    A stem takes codes (B, L) and gives features (B, P, C) and a mask (B, P), True where a bin holds at least one
    known base. `bases_BL4` replace the one-hot bases of the codes, differentiable; the mask is that of the codes.
    """

    receptive_field: int | None
    """Bases that a bin sees, centred on it; None where it sees the whole window."""
    is_local = True
    """Whether a base changes the bins near it alone, before `in_context`."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        self.config = config

    def whole_bins(self, codes_BL: Tensor, bases_BL4: Tensor | None) -> tuple[Tensor, Tensor]:
        """One-hot bases (B, P·pool, 4) of the codes, or those given instead, and the mask of bins (B, P)."""
        known_BP = known_bins(codes_BL, self.config)
        if bases_BL4 is None:
            return one_hot(padded_to_bins(codes_BL, self.config)).transpose(1, 2), known_BP
        return F.pad(bases_BL4, (0, 0, self.config.missing_bases, 0)), known_BP

    def in_context(self, bins_BPC: Tensor, _known_BP: Tensor) -> Tensor:
        """What keys are made of: bins (B, P, C) that know of each other. In most stems they do not."""
        return bins_BPC


class ConvStem(BinStem):
    """One convolution over the one-hot sequence, its best match per bin, normalised."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
        self.receptive_field = config.pool + config.kernel - 1
        self.both_strands = config.both_strands
        self.convolution = nn.Conv1d(4, config.channels, config.kernel)  # holds the filters; see best_match
        self.normalise = nn.GroupNorm(1, config.channels)

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        words_BL = padded_to_bins(codes_BL, self.config) if bases_BL4 is None else None
        bases_BL4, known_BP = self.whole_bins(codes_BL, bases_BL4)
        best_BPC = best_match(bases_BL4, self.filters(), self.config.pool, words_BL)
        features_BPC = self.normalise(self.activated(best_BPC).transpose(1, 2)).transpose(1, 2)
        return features_BPC, known_BP

    def filters(self) -> Tensor:
        """The filters, with `both_strands` behind them their reverse complements, (F, 4, K)."""
        filters_C4K = self.convolution.weight
        # A, C, G, T = 0..3, so flipping bases and positions is the reverse complement of the filter.
        return torch.cat([filters_C4K, filters_C4K.flip(1, 2)]) if self.both_strands else filters_C4K

    def activated(self, best_XF: Tensor) -> Tensor:
        """The best matches of the `filters` in bins (..., F) → features (..., C) before they are normalised."""
        if self.both_strands:
            best_XF = torch.maximum(*best_XF.chunk(2, dim=-1))
        assert self.convolution.bias is not None
        features_XC: Tensor = F.gelu(best_XF + self.convolution.bias)
        return features_XC


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


class KmerStem(BinStem):
    """A bin sums the vectors of the k-mers centred in it; a k-mer and its reverse complement share one vector.

    With attention that depends on position alone this is k-mer regression, so a network on top can start from the
    best simple models. k-mers with an ambiguous base add 0.
    """

    column: Tensor

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
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
        """Codes (B, L) → bins (B, P, C) and mask (B, P); bases_BL4: probabilities of bases (`expected_bins`)."""
        if bases_BL4 is not None:
            bases_BL4, known_BP = self.whole_bins(codes_BL, bases_BL4)
            return self.expected_bins(bases_BL4), known_BP
        known_BP = known_bins(codes_BL, self.config)
        k = self.config.kmer  # a k-mer is centred at its base
        centred_BX = F.pad(padded_to_bins(codes_BL, self.config), (k // 2, k - 1 - k // 2), value=AMBIGUOUS)
        columns_BL = self.columns_within(centred_BX)
        keep = 1.0
        if self.training and self.config.kmer_dropout:
            keep = 1 - self.config.kmer_dropout
            left_out_BL = uniform_like(columns_BL.float()) >= keep
            columns_BL = columns_BL.masked_fill(left_out_BL, self.num_columns)
        sums = self.vectors(columns_BL.reshape(-1, self.config.pool)) / keep
        return sums.view(len(codes_BL), -1, sums.shape[-1]), known_BP

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

    def columns_within(self, codes_BL: Tensor) -> Tensor:
        """The column of each k-mer that lies in the codes (B, L) as a whole, (B, L - k + 1)."""
        columns_BL: Tensor = self.column[kmer_numbers(codes_BL, self.config.kmer)]
        return columns_BL


def _expected_sums(windows_Nk4: Tensor, vectors_KC: Tensor, pool: int) -> Tensor:
    """Probabilities of the bases around N positions → the sum of the expected vectors of each `pool` of them."""
    probability_NK = windows_Nk4[:, 0]
    for place in range(1, windows_Nk4.shape[1]):
        probability_NK = (probability_NK[:, :, None] * windows_Nk4[:, place, None]).flatten(1)
    # Summed before the product, which is linear: one row a bin and not one a base.
    sums: Tensor = probability_NK.unflatten(0, (-1, pool)).sum(1) @ vectors_KC
    return sums


class BothStem(BinStem):
    """The first half of the channels sums k-mer vectors; the second half matches filters over the same bins.

    Sums of k-mers can start from a k-mer ridge regression and predict what is specific to a treatment. The best
    match of a filter is not a sum; it predicts more of what all treatments share. On yeast each misses what the
    other has.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
        half = config.channels // 2
        self.kmers = KmerStem(replace(config, channels=half, stem=Stem.KMER))
        self.filters = ConvStem(replace(config, channels=half, stem=Stem.CONV))
        self.receptive_field = config.pool + max(config.kmer, config.kernel) - 1

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        kmers_BPC, known_BP = self.kmers(codes_BL, bases_BL4)
        filters_BPC, _ = self.filters(codes_BL, bases_BL4)
        return torch.cat([kmers_BPC, filters_BPC], dim=-1), known_BP


class PatchStem(BinStem):
    """A linear layer over the one-hot bases of each bin (Dosovitskiy et al. 2021).

    Bins do not overlap: a motif that lies over an edge, or on the other strand, is another pattern.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
        self.receptive_field = config.pool
        self.project = nn.Linear(4 * config.pool, config.channels)

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        bases_BL4, known_BP = self.whole_bins(codes_BL, bases_BL4)
        patches_BPX = bases_BL4.reshape(len(bases_BL4), -1, 4 * self.config.pool)
        features_BPC: Tensor = self.project(patches_BPX)
        return features_BPC, known_BP


class TransformerStem(ConvStem):
    """The bins of the convolution; keys are made of them after layers of self-attention between all bins.

    Before training the layers change nothing.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
        self.receptive_field = None
        self.positions = AddedPositions(config.position, config.channels, config.num_bins)
        position = Axis("query", "position", edges=config.bin_edges)
        self.layers = nn.ModuleList(
            TransformerLayer(
                channels=config.channels,
                head_channels=config.head_channels,
                position=config.position,
                site=AttentionSite(
                    name=f"promoter.stem.{layer}",
                    axes=(Axis("sample"), Axis("head"), position, replace(position, name="key")),
                    heads=config.heads_at(layer),
                    receptive_field=None if layer else config.pool + config.kernel - 1,
                ),
            )
            for layer in range(config.stem_layers)
        )
        for module in self.layers:
            assert isinstance(module, TransformerLayer)
            for last in (module.attention.project_output, module.narrow):
                assert isinstance(last, nn.Linear)
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)

    def in_context(self, bins_BPC: Tensor, known_BP: Tensor) -> Tensor:
        """Bins (B, P, C) after self-attention; those without a base are not attended to."""
        features_BPC: Tensor = self.positions(bins_BPC)
        for layer in self.layers:
            features_BPC = layer(features_BPC, mask=known_BP[:, None, None, :])
        return features_BPC


class PretrainedStem(BinStem):
    """A linear layer over what a pretrained model makes of each bin, normalised."""

    is_local = False

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config)
        self.receptive_field = None
        assert config.encoder is not None
        self.encoder: BinEncoder = ability(family(config.encoder["family"]), "encoder")(config.encoder)
        self.encoder.require_length(config.length)
        self.encoder.requires_grad_(config.train_encoder)
        self.project = nn.Linear(self.encoder.channels, config.channels)
        self.normalise = nn.LayerNorm(config.channels)

    def train(self, mode: bool = True) -> "PretrainedStem":
        super().train(mode)
        self.encoder.train(mode and self.config.train_encoder)
        return self

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Raises: BioattnError when bases are given instead of codes."""
        if bases_BL4 is not None:
            raise BioattnError(
                "a pretrained stem reads tokens, to which no gradient goes; choose a method that mutates bases"
            )
        learns = torch.is_grad_enabled() and self.config.train_encoder
        with torch.set_grad_enabled(learns), no_capture():
            bins_BPX = self.encoder(codes_BL, self.config.bin_edges)
        features_BPC: Tensor = self.normalise(self.project(bins_BPX))
        return features_BPC, known_bins(codes_BL, self.config)


STEMS: Mapping[Stem, Callable[[PromoterModelConfig], BinStem]] = {
    Stem.CONV: ConvStem,
    Stem.KMER: KmerStem,
    Stem.BOTH: BothStem,
    Stem.PATCH: PatchStem,
    Stem.TRANSFORMER: TransformerStem,
    Stem.PRETRAINED: PretrainedStem,
}
