"""What single mutations do to the stem's bins, computed only where a mutation reaches.

A mutation changes the matches of the filters that cover it, so at most a few neighbouring bins. The convolutional
stem then normalises over all channels and bins of a promoter: that moves every bin, but by two numbers a mutant,
which follow from sums that are updated (in float64, so that nothing is lost) instead of formed again.

Shape suffixes: M mutants, L bases, P bins, W bins a mutation may reach, S bases of a bin, F filters, C channels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from bioattn.models.promoter.both_stem import BothStem
from bioattn.models.promoter.kmer_stem import KmerStem
from bioattn.models.promoter.stem import AMBIGUOUS, ConvStem, known_bins, one_hot, padded_to_bins


class MutatedBins(NamedTuple):
    """The stem's answer for some mutants of one promoter, as differences."""

    first_M: Tensor
    """int64: the first of the W bins that a mutation may reach."""
    raw_MWC: Tensor
    """Those bins before normalisation."""
    mean_M: Tensor
    """float32: mean over bins and channels; 0 where the stem does not normalise."""
    scale_M: Tensor
    """float32: 1 over the standard deviation; 1 where the stem does not normalise."""

    @property
    def reached(self) -> Tensor:
        """Numbers of the W bins, (M, W)."""
        return self.first_M[:, None] + torch.arange(self.raw_MWC.shape[1], device=self.first_M.device)

    def rows(self, index: Tensor) -> "MutatedBins":
        """Those of some mutants."""
        return MutatedBins(*(values[index] for values in self))


class MutatedStem:
    """The stem's bins of one promoter and of its mutants."""

    def __init__(self, stem: ConvStem | KmerStem, codes_L: Tensor) -> None:
        self._stem = stem
        config = stem.config
        self._pool = config.pool
        self._missing = config.num_bins * config.pool - config.length
        self._codes_1L = padded_to_bins(codes_L[None], config)
        self.known_P = known_bins(self._codes_1L, config.pool)[0]
        reach = config.kmer if isinstance(stem, KmerStem) else config.kernel
        self.width = min((reach - 1 + config.pool - 1) // config.pool + 1, config.num_bins)
        if isinstance(stem, KmerStem):
            # The k-mer centred at a base holds k // 2 bases before it, so a base is in k-mers centred from
            # (k - 1 - k // 2) before it to k // 2 behind it.
            self._reach_before = reach - 1 - reach // 2
            self.raw_PC = stem(codes_L[None])[0][0]
        else:
            self._reach_before = reach // 2
            bank_F4K = _bank(stem)
            self._matches_LF = F.conv1d(one_hot(self._codes_1L), bank_F4K, padding=config.kernel // 2)[0].T
            self._matches_LF = self._matches_LF.contiguous()
            # Padded so that a tap beyond the filter's ends changes nothing.
            size = self.width * config.pool
            taps_4KF = F.pad(bank_F4K.permute(1, 2, 0), (0, 0, size, size))
            self._change_NKF = (taps_4KF[None] - taps_4KF[:, None]).flatten(0, 1)
            self.raw_PC = _activated(stem, self._matches_LF.view(config.num_bins, config.pool, -1))
        flat = self.raw_PC.double()
        self._sum, self._squares = flat.sum(), flat.square().sum()
        self.mean, self.scale = (value[0] for value in self._moments(self._sum[None], self._squares[None]))

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        """What the normalised bins are multiplied by and what is added to them, (C,) each."""
        if isinstance(self._stem, KmerStem):
            ones = torch.ones_like(self.raw_PC[0])
            return ones, torch.zeros_like(ones)
        return self._stem.normalise.weight, self._stem.normalise.bias

    def first_bins(self, position_M: Tensor) -> Tensor:
        """The first of the `width` bins that a mutation at each position (window bases, from 0) may reach."""
        first_M = (position_M + self._missing - self._reach_before).clamp(min=0) // self._pool
        return first_M.clamp(max=len(self.raw_PC) - self.width)

    def mutants(self, position_M: Tensor, base_M: Tensor) -> MutatedBins:
        """The bins of mutants that have `base_M` (uint8) at `position_M` (window bases, from 0)."""
        first_M = self.first_bins(position_M)
        position_M = position_M + self._missing
        if isinstance(self._stem, KmerStem):
            raw_MWC = self._kmer_bins(self._stem, position_M, base_M, first_M)
        else:
            raw_MWC = self._conv_bins(self._stem, position_M, base_M, first_M)
        old_MWC = self.raw_PC.unfold(0, self.width, 1)[first_M].transpose(1, 2)
        new, old = raw_MWC.double(), old_MWC.double()
        mean_M, scale_M = self._moments(
            self._sum + (new - old).sum((1, 2)), self._squares + (new.square() - old.square()).sum((1, 2))
        )
        return MutatedBins(first_M, raw_MWC, mean_M, scale_M)

    def bins(self, position_M: Tensor, base_M: Tensor) -> Tensor:
        """All bins of mutants as the stem would give them, (M, P, C)."""
        return self.normalised(self.mutants(position_M, base_M))

    def normalised(self, mutated: MutatedBins) -> Tensor:
        """All bins of the mutants as the stem would give them, (M, P, C)."""
        weight_C, bias_C = self.affine
        factor_MC = mutated.scale_M[:, None] * weight_C
        offset_MC = bias_C - mutated.mean_M[:, None] * factor_MC
        bins_MPC = torch.addcmul(offset_MC[:, None], factor_MC[:, None], self.raw_PC)
        touched_MWC = torch.addcmul(offset_MC[:, None], factor_MC[:, None], mutated.raw_MWC)
        rows_M1 = torch.arange(len(bins_MPC), device=bins_MPC.device)[:, None]
        bins_MPC[rows_M1, mutated.reached] = touched_MWC
        return bins_MPC

    def _moments(self, sum_M: Tensor, squares_M: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and 1 / standard deviation, as GroupNorm has them."""
        if isinstance(self._stem, KmerStem):
            zeros_M = torch.zeros_like(sum_M, dtype=torch.float32)
            return zeros_M, zeros_M + 1
        mean_M = sum_M / self.raw_PC.numel()
        variance_M = (squares_M / self.raw_PC.numel() - mean_M.square()).clamp(min=0)
        return mean_M.float(), torch.rsqrt(variance_M + self._stem.normalise.eps).float()

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

    def _kmer_bins(self, stem: KmerStem, position_M: Tensor, base_M: Tensor, first_M: Tensor) -> Tensor:
        k = stem.config.kmer
        padded_L = F.pad(self._codes_1L[0], (k // 2, k - 1 - k // 2), value=AMBIGUOUS)
        start_M = first_M * self._pool
        around_MX = padded_L.unfold(0, self.width * self._pool + k - 1, 1)[start_M].clone()
        rows_M = torch.arange(len(start_M), device=start_M.device)
        around_MX[rows_M, position_M + k // 2 - start_M] = base_M
        sums: Tensor = stem.vectors(stem.columns_within(around_MX).reshape(-1, self._pool))
        return sums.view(len(start_M), self.width, -1)


class MutatedBothStem:
    """The bins of one promoter's mutants in a stem of two halves, of which only one normalises."""

    def __init__(self, stem: BothStem, codes_L: Tensor) -> None:
        self._halves = MutatedStem(stem.kmers, codes_L), MutatedStem(stem.filters, codes_L)
        self.known_P = self._halves[0].known_P

    def bins(self, position_M: Tensor, base_M: Tensor) -> Tensor:
        """As `MutatedStem.bins`."""
        return torch.cat([half.bins(position_M, base_M) for half in self._halves], dim=-1)


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
