"""A learned vector per k-mer, summed per bin.

Shape suffixes: B promoters, L bases, K k-mer positions, P bins, C channels.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.models.promoter.batch_part import uniform_like
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.stem import AMBIGUOUS, known_bins, padded_to_bins
from bioattn.promoters.kmers import canonical_columns

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
        kmers = torch.arange(4**config.kmer)
        columns = torch.from_numpy(canonical_columns(config.kmer)) if config.both_strands else kmers
        self.num_columns = int(columns.max()) + 1
        # One column more, all zero: k-mers that count nothing.
        self.register_buffer(
            "column", torch.cat([columns, torch.tensor([self.num_columns])]), persistent=False
        )
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
