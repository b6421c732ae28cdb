"""A ridge regression on k-mer counts as a promoter model: what a network has to beat, in the same folder.

Shape suffixes: B promoters, L bases, T treatments, K k-mers, X blocks of counts.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.stem import KmerStem
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary


class RidgeModel(nn.Module):
    """For each block of counts a number per k-mer and treatment and a weight per base, and a number per treatment.

    The k-mers of a `KmerStem` with bins of one base have as many channels as there are treatments: what an
    occurrence adds to each of them.
    """

    weights_XL: Tensor
    offset_T: Tensor

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        number = len(vocabulary.names)
        single = replace(config, pool=1, channels=number, both_strands=False)
        self.stems = nn.ModuleList(KmerStem(replace(single, kmer=k)) for k in config.ridge_kmers)
        self.register_buffer("weights_XL", torch.zeros(len(config.ridge_kmers), config.length))
        self.register_buffer("offset_T", torch.zeros(number))

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); `bases_BL4` as the stem takes them."""
        answer_BT = self.offset_T.expand(len(codes_BL), -1)
        for stem, weights_L in zip(self.stems, self.weights_XL, strict=True):
            added_BLT, _ = stem(codes_BL, bases_BL4)
            answer_BT = answer_BT + torch.einsum("blt,l->bt", added_BLT, weights_L)
        return answer_BT[:, treatments.index_T]

    @torch.no_grad()
    def set_block(self, block: int, weights_L: np.ndarray, added_KT: np.ndarray) -> None:
        """weights_L: what a k-mer counts that begins at each base. added_KT: for all 4^k k-mers."""
        stem = self.stems[block]
        assert isinstance(stem, KmerStem)
        stem.vectors.weight[:-1] = torch.from_numpy(added_KT).float()
        # The stem has a k-mer at its centre.
        shift = stem.config.kmer // 2
        self.weights_XL[block, shift:] = torch.from_numpy(weights_L[: len(weights_L) - shift]).float()
