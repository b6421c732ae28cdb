"""Bins, keys and values of one promoter's single mutants in a `cross` model, computed where a mutation reaches.

A mutation changes the matches of the filters that cover it, so at most a few neighbouring bins. The convolutional
stem then normalises over all channels and bins of a promoter: that moves every bin, but by two numbers a mutant,
which follow from sums that are updated (in float64, so that nothing is lost) instead of formed again.

So everywhere else a mutation acts through two numbers: the stem's normalisation scales bins by 1 + `bin_scale`
and shifts them by `bin_shift`. With them, at a bin far away,

    bin' = bin + bin_scale · spread + bin_shift · weight,
    logit' = logit + bin_scale · gradient + bin_shift · level,

and the value is what the readout reads of bin'.

Shape suffixes: M mutants, L bases, P bins, E some neighbouring bins, W bins a mutation may reach, S bases of a
bin, F filters, C channels, H heads, T treatments, D channels of a head, V variables, N nodes, Q monomials.
"""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import scipy.linalg
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.operator import masked_logit
from bioattn.models.promoter.cross import BinReadout
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

    def reached(self) -> Tensor:
        """Numbers of the W bins, (M, W)."""
        return self.first_M[:, None] + torch.arange(self.raw_MWC.shape[1], device=self.first_M.device)

    def rows(self, index: Tensor) -> "MutatedBins":
        return MutatedBins(*(values[index] for values in self))


class MutatedStem:
    """The stem's bins of one promoter and of its mutants: channels of k-mers or patches, then those of filters."""

    def __init__(self, stem: BinStem, codes_L: Tensor) -> None:
        self._sums: KmerStem | PatchStem | None = stem if isinstance(stem, KmerStem | PatchStem) else None
        self._filters = stem if isinstance(stem, ConvStem) else None
        if isinstance(stem, BothStem):
            self._sums, self._filters = stem.kmers, stem.filters
        config = stem.config
        self._pool = config.pool
        self._missing = config.missing_bases
        self._codes_1L = padded_to_bins(codes_L[None], config)
        self.known_P = known_bins(codes_L[None], config)[0]
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
            bank_F4K = self._filters.filters()
            self._matches_LF = F.conv1d(one_hot(self._codes_1L), bank_F4K, padding=config.kernel // 2)[0].T
            self._matches_LF = self._matches_LF.contiguous()
            # Padded so that a tap beyond the filter's ends changes nothing.
            size = self.width * config.pool
            taps_4KF = F.pad(bank_F4K.permute(1, 2, 0), (0, 0, size, size))
            self._change_NKF = (taps_4KF[None] - taps_4KF[:, None]).flatten(0, 1)
            matches_PSF = self._matches_LF.view(config.num_bins, config.pool, -1)
            parts.append(self._filters.activated(matches_PSF.amax(-2)))
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
            size = self.width * self._pool
            matches_MXF = self._matches_LF.unfold(0, size, self._pool)[first_M].transpose(1, 2)
            # Each match that holds the mutated base loses what the old base gave and gains what the new one gives.
            old_M = self._codes_1L[0, position_M].long()
            tap_M = position_M - first_M * self._pool + self._filters.config.kernel // 2 + size
            tap_MX = tap_M[:, None] - torch.arange(size, device=first_M.device)
            matches_MXF += self._change_NKF[(4 * old_M + base_M)[:, None], tap_MX]
            matches = matches_MXF.unflatten(1, (self.width, self._pool))
            parts.append(self._filters.activated(matches.amax(-2)))
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
        bins_MPC[rows_M1, mutated.reached()] = self.normalise(
            mutated.raw_MWC, mutated.mean_M, mutated.scale_M
        )
        return bins_MPC

    def _moments(self, sum_M: Tensor, squares_M: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and 1 / standard deviation, as GroupNorm has them."""
        if self._filters is None:
            zeros_M = torch.zeros_like(sum_M, dtype=torch.float32)
            return zeros_M, zeros_M + 1
        mean_M = sum_M / self._count
        variance_M = (squares_M / self._count - mean_M.square()).clamp(min=0)
        return mean_M.float(), torch.rsqrt(variance_M + self._filters.normalise.eps).float()

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


# Far from its position a mutation acts through two small numbers. Over the range of the mutants of neighbouring
# bins a polynomial in those numbers is as exact as float32. So the function is computed for some mutants (nodes),
# chosen so that the values of all others are weighted sums of theirs.
DEGREE = 4
TOLERANCE = 2e-7
"""Relative error of one value; float32 rounds to 6e-8."""
_LARGEST_SUM = (TOLERANCE * math.factorial(DEGREE + 1)) ** (1 / (DEGREE + 1))
"""Up to this sum of the variables' sizes what is left out, x^5 / 5!, is below the tolerance."""


def smooth_rows(variables_MV: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which mutants are close enough to the middle of all for the polynomial, (M,).

    variables_MV: scaled so that a change by 1 changes the logarithm of the function, or the function, by about 1.
    """
    centred_MV = variables_MV - np.median(variables_MV, axis=0)
    close: NDArray[np.bool_] = np.abs(centred_MV).sum(axis=1) <= _LARGEST_SUM
    return close


def interpolation(variables_MV: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The mutants to compute (N,), and the weights (M, N) by which their values give those of all M mutants.

    The nodes are the pivots of a QR decomposition of the mutants' monomials (products of up to `DEGREE` variables,
    each over the factorials of its powers), so that none of the sums has large terms that cancel (Cheng et al.
    2005, interpolative decomposition).
    """
    centred_MV = variables_MV - variables_MV.mean(axis=0)
    columns = [np.ones(len(centred_MV))]
    for degree in range(1, DEGREE + 1):
        for chosen in combinations_with_replacement(range(centred_MV.shape[1]), degree):
            factorials = math.prod(math.factorial(power) for power in np.bincount(chosen))
            columns.append(np.prod(centred_MV[:, chosen], axis=1) / factorials)
    _, triangle, pivots = scipy.linalg.qr(np.stack(columns), mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    count = max(1, int((sizes > TOLERANCE).sum()))
    weights_MN = np.zeros((len(variables_MV), count))
    weights_MN[pivots[:count]] = np.eye(count)
    solved = scipy.linalg.solve_triangular(triangle[:count, :count], triangle[:count, count:])
    weights_MN[pivots[count:]] = solved.T
    return pivots[:count].astype(np.int64), weights_MN


class Shifts(NamedTuple):
    """The two numbers (see the top of this file) of M mutants, float32."""

    bin_scale_M: Tensor
    bin_shift_M: Tensor

    def rows(self, index: Tensor) -> "Shifts":
        return Shifts(*(values[index] for values in self))


class PromoterFields:
    """Keys and values of a `cross` model without a value mixer, for one promoter and its mutants."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        readout: BinReadout,
        stem: MutatedStem,
        query_THD: Tensor,
        bias_HTP: Tensor | None,
    ) -> None:
        """query_THD: queries of the treatments, projected and divided by √D; bias_HTP: their position biases."""
        self._stem, self._reader = stem, readout
        # Channels that the stem does not normalise stay as they are where no mutation reaches.
        self._weight_C = stem.weight_C * stem.normalised_C
        self._spread_PC = (stem.raw_PC - stem.mean) * stem.scale * self._weight_C
        self._bins_PC = torch.where(stem.normalised_C, self._spread_PC + stem.bias_C, stem.raw_PC)
        self._query_HDT = query_THD.permute(1, 2, 0).contiguous()
        self._key_weight = attention.project_key.weight
        self._project_value = attention.project_value
        offset_PH1 = torch.where(stem.known_P, 0.0, masked_logit(torch.float32))[:, None, None]
        self._offset_PHT = offset_PH1 if bias_HTP is None else offset_PH1 + bias_HTP.permute(2, 0, 1)
        self._gradient_HPT = self._logits(self._spread_PC)
        self.level_HT = self._logits(self._weight_C[None])[:, 0]
        """By how much a shift of the bins moves all logits."""
        self.logit_HPT = self._logits(self._bins_PC) + self._offset_PHT.transpose(0, 1)
        self._reach_2 = self._reach_of_shifts()

    def shifts(self, mutated: MutatedBins) -> Shifts:
        return Shifts(
            mutated.scale_M / self._stem.scale - 1, (self._stem.mean - mutated.mean_M) * mutated.scale_M
        )

    def variables(self, shifts: Shifts) -> Tensor:
        """The two numbers scaled to how much they move logits and values far away at most, (M, 2), float64."""
        return torch.stack(shifts, dim=1).double() * self._reach_2

    def logits(self, shifts: Shifts, bins: slice, out: Tensor | None = None) -> Tensor:
        """Logits (M, H, E, T) of bins as if no mutation reached them, without `level`, which all bins share."""
        scale_M111 = shifts.bin_scale_M[:, None, None, None]
        return torch.addcmul(self.logit_HPT[:, bins], scale_M111, self._gradient_HPT[:, bins], out=out)

    def reached_logits(self, mutated: MutatedBins) -> Tensor:
        """Logits (M, W, H, T) of the bins a mutation reaches."""
        bins_MWC = self._stem.normalise(mutated.raw_MWC, mutated.mean_M, mutated.scale_M)
        logits_HNT = self._logits(bins_MWC.flatten(0, 1))
        logits_MWHT: Tensor = logits_HNT.unflatten(1, bins_MWC.shape[:2]).permute(1, 2, 0, 3)
        return logits_MWHT + self._offset_PHT[mutated.reached()]

    def values(self, shifts: Shifts, bins: slice, mutated: MutatedBins | None = None) -> Tensor:
        """Projected values (M, E, H·D) of bins; with `mutated` of mutants that reach only into `bins`, else as if
        no mutation reached them."""
        factor, shift = shifts.bin_scale_M[:, None, None], shifts.bin_shift_M[:, None, None]
        values_MEC = torch.addcmul(self._bins_PC[bins], factor, self._spread_PC[bins])
        values_MEC.addcmul_(shift, self._weight_C)
        if mutated is not None:
            rows_M1 = torch.arange(len(values_MEC), device=values_MEC.device)[:, None]
            values_MEC[rows_M1, mutated.reached() - bins.start] = self._stem.normalise(
                mutated.raw_MWC, mutated.mean_M, mutated.scale_M
            )
        projected: Tensor = self._project_value(self._reader.values(values_MEC))
        return projected

    def _logits(self, bins_NC: Tensor) -> Tensor:
        """Dot products of the keys of bins with the queries, (H, N, T)."""
        keys_HND: Tensor = (
            (bins_NC @ self._key_weight.T).unflatten(1, (len(self._query_HDT), -1)).transpose(0, 1)
        )
        return keys_HND @ self._query_HDT

    def _reach_of_shifts(self) -> Tensor:
        """How much logits and values far away move at most by 1 of each of `variables`, (2,), float64."""
        gradient, hidden = self._gradient_HPT, self._reader.hidden.weight
        by_scale = [
            (gradient.amax(1) - gradient.amin(1)).max(),
            self._spread_PC.abs().max(),
            F.linear(self._spread_PC, hidden).abs().max(),
        ]
        by_shift = torch.maximum(self._weight_C.abs().max(), F.linear(self._weight_C, hidden).abs().max())
        return torch.stack([torch.stack(by_scale).max(), by_shift]).double()
