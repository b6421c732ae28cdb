"""The extra MSA's first representation (AlphaFold 2 supplement, Algorithm 2, lines 14 and 15).

Shape suffixes: E extra MSA rows, R residues, C channels.
"""

import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.initial_weights import linear

NUM_CLASSES = 23
"""20 amino acids, unknown, gap, mask."""


class ExtraMsaEmbedder(nn.Module):
    """A linear layer on 25 features: one-hot of the residue (23), whether and how much was deleted before it."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.project_extra_msa = linear(NUM_CLASSES + 2, config.extra_msa_channels)

    def forward(self, extra_msa_ER: Tensor, has_deletion_ER: Tensor, deletion_value_ER: Tensor) -> Tensor:
        """(E, R, C); extra_msa_ER: int64 0..22."""
        columns = self.project_extra_msa.weight.t()
        # Columns of the weight looked up: thousands of rows times 25 features would be larger than the result.
        embedded_ERC = F.embedding(extra_msa_ER, columns[:NUM_CLASSES] + self.project_extra_msa.bias)
        embedded_ERC.addcmul_(has_deletion_ER.unsqueeze(-1), columns[NUM_CLASSES])
        return embedded_ERC.addcmul_(deletion_value_ER.unsqueeze(-1), columns[NUM_CLASSES + 1])
