"""The stem's bins of single mutants, computed only where a mutation reaches.

A mutation changes the matches of the filters that cover it, so at most a few neighbouring bins. The convolutional
stem then normalises over all channels and bins of a promoter: that moves every bin, but by two numbers a mutant,
which follow from sums that are updated (in float64, so that nothing is lost) instead of formed again.

Shape suffixes: M mutants, L bases, P bins, W bins a mutation may reach, S bases of a bin, F filters, C channels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from bioattn.models.promoter.stem import (
    AMBIGUOUS,
    BinStem,
    BothStem,
    ConvStem,
    KmerStem,
    PatchStem,
    known_bins,
    one_hot,
    padded_to_bins,
)


class MutatedBins(NamedTuple):
    """The stem's bins of some mutants of one promoter, as differences from the promoter."""

    first_M: Tensor
    """int64: the first of the W bins that a mutation may reach."""
    raw_MWC: Tensor
    """The W bins before normalisation."""
    mean_M: Tensor
    """float32: mean over bins and channels; 0 where the stem does not normalise."""
    scale_M: Tensor
    """float32: 1 over the standard deviation; 1 where the stem does not normalise."""

    @property
    def reached(self) -> Tensor:
        """Numbers of the W bins, (M, W)."""
        return self.first_M[:, None] + torch.arange(self.raw_MWC.shape[1], device=self.first_M.device)

    def rows(self, index: Tensor) -> "MutatedBins":
        return MutatedBins(*(values[index] for values in self))


class MutatedStem:
    """The stem's bins of one promoter and of its mutants: channels of k-mers or patches, then those of filters."""

    def __init__(self, stem: BinStem, codes_L: Tensor) -> None:
        self._sums, self._filters = _parts(stem)
        config = stem.config
        self._pool = config.pool
        self._missing = config.num_bins * config.pool - config.length
        self._codes_1L = padded_to_bins(codes_L[None], config)
        self.known_P = known_bins(self._codes_1L, config.pool)[0]
        before, behind, parts = 0, 0, []
        if isinstance(self._sums, KmerStem):
            # The k-mer centred at a base holds k // 2 bases before it, so a base is in k-mers centred from
            # (k - 1 - k // 2) before it to k // 2 behind it.
            before, behind = config.kmer - 1 - config.kmer // 2, config.kmer // 2
        if self._sums is not None:
            parts.append(self._sums(codes_L[None])[0][0])
        if self._filters is not None:
            before, behind = max(before, config.kernel // 2), max(behind, config.kernel // 2)
        self._reach_before = before
        self.width = min((before + behind + config.pool - 1) // config.pool + 1, config.num_bins)
        if self._filters is not None:
            bank_F4K = _bank(self._filters)
            self._matches_LF = F.conv1d(one_hot(self._codes_1L), bank_F4K, padding=config.kernel // 2)[0].T
            self._matches_LF = self._matches_LF.contiguous()
            # Padded so that a tap beyond the filter's ends changes nothing.
            size = self.width * config.pool
            taps_4KF = F.pad(bank_F4K.permute(1, 2, 0), (0, 0, size, size))
            self._change_NKF = (taps_4KF[None] - taps_4KF[:, None]).flatten(0, 1)
            matches_PSF = self._matches_LF.view(config.num_bins, config.pool, -1)
            parts.append(_activated(self._filters, matches_PSF))
        self.raw_PC = torch.cat(parts, dim=-1)
        channels = self.raw_PC.shape[1]
        first = channels if self._filters is None else channels - parts[-1].shape[1]
        self.normalised_C = torch.arange(channels, device=codes_L.device) >= first
        """Which channels the stem normalises, over all of them and all bins: those of filters."""
        self._normalised = slice(first, None)
        flat = self.raw_PC[:, self._normalised].double()
        self._count = flat.numel()
        self._sum, self._squares = flat.sum(), flat.square().sum()
        self.mean, self.scale = (value[0] for value in self._moments(self._sum[None], self._squares[None]))
        self.weight_C, self.bias_C = torch.ones_like(self.raw_PC[0]), torch.zeros_like(self.raw_PC[0])
        if self._filters is not None:
            self.weight_C[self._normalised] = self._filters.normalise.weight
            self.bias_C[self._normalised] = self._filters.normalise.bias

    def normalise(self, raw: Tensor, mean_M: Tensor, scale_M: Tensor) -> Tensor:
        """Raw bins (M, ..., C) as the stem gives them, by the mean and scale of each mutant."""
        ones = [1] * (raw.ndim - 1)
        factor = torch.where(self.normalised_C, scale_M.view(-1, *ones) * self.weight_C, 1.0)
        offset = torch.where(self.normalised_C, self.bias_C - mean_M.view(-1, *ones) * factor, 0.0)
        return torch.addcmul(offset, raw, factor)

    def first_bins(self, position_M: Tensor) -> Tensor:
        """The first of the `width` bins that a mutation at each position (window bases, from 0) may reach."""
        first_M = (position_M + self._missing - self._reach_before).clamp(min=0) // self._pool
        return first_M.clamp(max=len(self.raw_PC) - self.width)

    def mutants(self, position_M: Tensor, base_M: Tensor) -> MutatedBins:
        """The bins of mutants that have `base_M` (uint8) at `position_M` (window bases, from 0)."""
        first_M = self.first_bins(position_M)
        position_M = position_M + self._missing
        parts = []
        if self._sums is not None:
            parts.append(self._summed_bins(self._sums, position_M, base_M, first_M))
        if self._filters is not None:
            parts.append(self._conv_bins(self._filters, position_M, base_M, first_M))
        raw_MWC = torch.cat(parts, dim=-1)
        old_MWC = self.raw_PC.unfold(0, self.width, 1)[first_M].transpose(1, 2)
        new = raw_MWC[..., self._normalised].double()
        old = old_MWC[..., self._normalised].double()
        mean_M, scale_M = self._moments(
            self._sum + (new - old).sum((1, 2)), self._squares + (new.square() - old.square()).sum((1, 2))
        )
        return MutatedBins(first_M, raw_MWC, mean_M, scale_M)

    def bins(self, mutated: MutatedBins) -> Tensor:
        """All bins of the mutants as the stem would give them, (M, P, C)."""
        everywhere = self.raw_PC.expand(len(mutated.first_M), *self.raw_PC.shape)
        bins_MPC = self.normalise(everywhere, mutated.mean_M, mutated.scale_M)
        rows_M1 = torch.arange(len(bins_MPC), device=bins_MPC.device)[:, None]
        bins_MPC[rows_M1, mutated.reached] = self.normalise(mutated.raw_MWC, mutated.mean_M, mutated.scale_M)
        return bins_MPC

    def _moments(self, sum_M: Tensor, squares_M: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and 1 / standard deviation, as GroupNorm has them."""
        if self._filters is None:
            zeros_M = torch.zeros_like(sum_M, dtype=torch.float32)
            return zeros_M, zeros_M + 1
        mean_M = sum_M / self._count
        variance_M = (squares_M / self._count - mean_M.square()).clamp(min=0)
        return mean_M.float(), torch.rsqrt(variance_M + self._filters.normalise.eps).float()

    def _conv_bins(self, stem: ConvStem, position_M: Tensor, base_M: Tensor, first_M: Tensor) -> Tensor:
        matches_MXF = self._matches_LF.unfold(0, self.width * self._pool, self._pool)[first_M].transpose(1, 2)
        # Each match that holds the mutated base loses what the old base gave and gains what the new one gives.
        old_M = self._codes_1L[0, position_M].long()
        size = self.width * self._pool
        tap_MX = (position_M - first_M * self._pool + stem.config.kernel // 2 + size)[:, None] - torch.arange(
            size, device=first_M.device
        )
        matches_MXF += self._change_NKF[(4 * old_M + base_M)[:, None], tap_MX]
        return _activated(stem, matches_MXF.unflatten(1, (self.width, self._pool)))

    def _summed_bins(
        self, stem: KmerStem | PatchStem, position_M: Tensor, base_M: Tensor, first_M: Tensor
    ) -> Tensor:
        # A k-mer reaches over its bin's edges, a patch does not.
        k = stem.config.kmer if isinstance(stem, KmerStem) else 1
        padded_L = F.pad(self._codes_1L[0], (k // 2, k - 1 - k // 2), value=AMBIGUOUS)
        start_M = first_M * self._pool
        around_MX = padded_L.unfold(0, self.width * self._pool + k - 1, 1)[start_M].clone()
        rows_M = torch.arange(len(start_M), device=start_M.device)
        around_MX[rows_M, position_M + k // 2 - start_M] = base_M
        sums: Tensor = (
            stem.vectors(stem.columns_within(around_MX).reshape(-1, self._pool))
            if isinstance(stem, KmerStem)
            else stem.project(one_hot(around_MX.view(-1, self._pool)).transpose(1, 2).flatten(1))
        )
        return sums.view(len(start_M), self.width, -1)


def _parts(stem: BinStem) -> tuple[KmerStem | PatchStem | None, ConvStem | None]:
    if isinstance(stem, BothStem):
        return stem.kmers, stem.filters
    if isinstance(stem, ConvStem):
        return None, stem
    assert isinstance(stem, KmerStem | PatchStem)
    return stem, None


def _activated(stem: ConvStem, matches_NSF: Tensor) -> Tensor:
    """Matches (..., S, F) → features (..., C) as the stem has them before it normalises."""
    best_NF = matches_NSF.amax(-2)
    if stem.both_strands:
        best_NF = torch.maximum(*best_NF.chunk(2, dim=-1))
    bias_C = stem.convolution.bias
    assert bias_C is not None
    activated: Tensor = stem.activation(best_NF + bias_C)
    return activated


def _bank(stem: ConvStem) -> Tensor:
    """The filters, forward and as reverse complements, (F, 4, K)."""
    filters_F4K = stem.convolution.weight
    return torch.cat([filters_F4K, filters_F4K.flip(1, 2)]) if stem.both_strands else filters_F4K
