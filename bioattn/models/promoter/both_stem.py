"""k-mer vectors and filters side by side, as the stem of `cross`.

Shape suffixes: B promoters, L bases, P bins, C channels.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from bioattn.models.promoter.config import PromoterModelConfig, Stem
from bioattn.models.promoter.kmer_stem import KmerStem
from bioattn.models.promoter.stem import ConvStem


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
