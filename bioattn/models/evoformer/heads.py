"""Output heads of the representations (AlphaFold 2 supplement, 1.9). All give logits in float32.

Shape suffixes: S MSA rows, R residues, C channels, N bins or classes.
"""

import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, relu_linear

NUM_MSA_CLASSES = 23
"""20 amino acids, unknown, gap, mask."""
NUM_PLDDT_BINS = 50
NUM_ALIGNED_ERROR_BINS = 64
NUM_ATOMS = 37


class DistogramHead(nn.Module):
    """Distance bins of CB atoms, from the pair representation (1.9.8); symmetric."""

    def __init__(self, pair_channels: int, num_bins: int) -> None:
        super().__init__()
        self.project_pair = final_linear(pair_channels, num_bins)

    def forward(self, pair_RRC: Tensor) -> Tensor:
        """(R, R, N)."""
        half_RRN = self.project_pair(pair_RRC.float())
        logits_RRN: Tensor = half_RRN + half_RRN.transpose(0, 1)
        return logits_RRN


class MaskedMsaHead(nn.Module):
    """The true residue of each MSA cell, from the MSA representation (1.9.9)."""

    def __init__(self, msa_channels: int) -> None:
        super().__init__()
        self.project_msa = final_linear(msa_channels, NUM_MSA_CLASSES)

    def forward(self, msa_SRC: Tensor) -> Tensor:
        """(S, R, 23)."""
        logits_SRN: Tensor = self.project_msa(msa_SRC.float())
        return logits_SRN


class PlddtHead(nn.Module):
    """The lDDT-Cα a residue will have, from the structure module's single representation (Algorithm 29)."""

    def __init__(self, single_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(single_channels)
        self.first = relu_linear(single_channels, hidden_channels)
        self.second = relu_linear(hidden_channels, hidden_channels)
        self.project_bins = final_linear(hidden_channels, NUM_PLDDT_BINS)

    def forward(self, single_RC: Tensor) -> Tensor:
        """(R, 50)."""
        hidden_RC = F.relu(self.first(self.normalise(single_RC.float())))
        logits_RN: Tensor = self.project_bins(F.relu(self.second(hidden_RC)))
        return logits_RN


class AlignedErrorHead(nn.Module):
    """The error at residue j when the structures are superimposed at residue i, from the pairs (1.9.7)."""

    def __init__(self, pair_channels: int) -> None:
        super().__init__()
        self.project_pair = final_linear(pair_channels, NUM_ALIGNED_ERROR_BINS)

    def forward(self, pair_RRC: Tensor) -> Tensor:
        """(R, R, 64), not symmetric."""
        logits_RRN: Tensor = self.project_pair(pair_RRC.float())
        return logits_RRN


class ExperimentallyResolvedHead(nn.Module):
    """Whether an experiment would resolve each atom, from the trunk's single representation (1.9.10)."""

    def __init__(self, single_channels: int) -> None:
        super().__init__()
        self.project_single = final_linear(single_channels, NUM_ATOMS)

    def forward(self, single_RC: Tensor) -> Tensor:
        """(R, 37)."""
        logits_RN: Tensor = self.project_single(single_RC.float())
        return logits_RN
