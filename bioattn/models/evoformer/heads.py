"""Output heads, what is read off their logits, and the losses that train them (AlphaFold 2 supplement, 1.9).

Logits are float32. Distances have 64 bins: the first holds everything below 2.3125 Å, the last everything above
21.6875 Å; models with another number of bins divide the same range.

Shape suffixes: S MSA rows, R residues, C channels, N bins or classes.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.choices import CONTACT_DISTANCE, MIN_SEPARATION
from bioattn.models.evoformer.layers import final_linear, relu_linear

NUM_PLDDT_BINS = 50
NUM_ALIGNED_ERROR_BINS = 64
NUM_ATOMS = 37


class LinearHead(nn.Module):
    """One linear layer on a representation (1.9.7 to 1.9.10), (..., C) → (..., N)."""

    def __init__(self, of: str, channels: int, num_bins: int, *, symmetric: bool = False) -> None:
        """of: `msa`, `pair` or `single`, which the weights are named after. symmetric: in both residues."""
        super().__init__()
        self.symmetric = symmetric
        self.name = f"project_{of}"
        self.add_module(self.name, final_linear(channels, num_bins))

    def forward(self, given: Tensor) -> Tensor:
        logits: Tensor = self.get_submodule(self.name)(given.float())
        return logits + logits.transpose(0, 1) if self.symmetric else logits


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
        return self.project_bins(F.relu(self.second(hidden_RC)))


FIRST_EDGE, LAST_EDGE = 2.3125, 21.6875
"""Å between the first two and the last two bins."""


def bin_edges(num_bins: int) -> Tensor:
    """(N - 1,) Å between neighbouring bins."""
    return torch.linspace(FIRST_EDGE, LAST_EDGE, num_bins - 1)


def distance_bins(distances_RR: Tensor, num_bins: int) -> Tensor:
    """The bin of each distance, int64; an edge belongs to the bin below it."""
    return torch.bucketize(distances_RR, bin_edges(num_bins).to(distances_RR.device))


def contact_bins(num_bins: int) -> int:
    """How many of the first bins count as contact: those whose middle lies below 8 Å."""
    edges = bin_edges(num_bins)
    middles = (edges[1:] + edges[:-1]) / 2
    return 1 + int((middles < CONTACT_DISTANCE).sum())


def contact_probabilities(logits_RRN: Tensor) -> Tensor:
    """Probability (R, R) that two residues are closer than 8 Å: the sum over `contact_bins`."""
    probability_RRN = logits_RRN.float().softmax(-1)
    return probability_RRN[..., : contact_bins(logits_RRN.shape[-1])].sum(-1)


MAX_ALIGNED_ERROR = 31.0
"""Lower edge of the last bin in ångström."""


def plddt(logits_RN: Tensor) -> Tensor:
    """Expected lDDT-Cα of each residue, (R,), 0..100."""
    num_bins = logits_RN.shape[-1]
    centres_N = (torch.arange(num_bins, device=logits_RN.device) + 0.5) * (100 / num_bins)
    return logits_RN.float().softmax(-1) @ centres_N


def predicted_aligned_error(logits_RRN: Tensor) -> Tensor:
    """Expected error (R, R), Å, of residue j when the prediction is superimposed on the truth at residue i."""
    return logits_RRN.float().softmax(-1) @ aligned_error_centres(logits_RRN)


def predicted_tm_score(logits_RRN: Tensor) -> Tensor:
    """Expected TM-score of the prediction, 0..1 (a scalar tensor): the best over residues to superimpose at."""
    residues = len(logits_RRN)
    # d0 of Yang & Skolnick 2004, equation 5, which is not defined for fewer than 19 residues.
    d0 = 1.24 * (max(residues, 19) - 15) ** (1 / 3) - 1.8
    score_N = 1 / (1 + (aligned_error_centres(logits_RRN) / d0).square())
    score_RR = logits_RRN.float().softmax(-1) @ score_N
    best: Tensor = (score_RR.sum(-1) / residues).max()
    return best


def aligned_error_centres(logits_RRN: Tensor) -> Tensor:
    """Centres (N,) of the bins, Å; the last one has no upper edge and is taken as wide as the others."""
    num_bins = logits_RRN.shape[-1]
    width = MAX_ALIGNED_ERROR / (num_bins - 2)
    return (torch.arange(num_bins, device=logits_RRN.device) + 0.5) * width


class Losses(NamedTuple):
    """The parts of one sample's loss, scalars."""

    distogram: Tensor
    contact: Tensor
    masked_msa: Tensor


def sample_losses(
    distogram_logits_RRN: Tensor,
    masked_msa_logits_SRN: Tensor | None,
    distances_RR: Tensor,
    separation_RR: Tensor,
    true_msa_SR: Tensor,
    chosen_SR: Tensor,
) -> Losses:
    """The losses of one sample, each a mean over what is known; 0 where nothing is.

    distances_RR: Å, NaN where a residue has no coordinates. separation_RR: columns apart. chosen_SR: 1 for cells
    that masking chose.
    """
    num_bins = distogram_logits_RRN.shape[-1]
    known_RR = torch.isfinite(distances_RR)
    bins_RR = distance_bins(torch.nan_to_num(distances_RR), num_bins)
    log_probability_RRN = F.log_softmax(distogram_logits_RRN, dim=-1)
    error_RR = -log_probability_RRN.gather(-1, bins_RR.unsqueeze(-1)).squeeze(-1)
    near = contact_bins(num_bins)
    apart_RR = known_RR & (separation_RR.abs() >= MIN_SEPARATION)
    contact_RR = torch.where(
        bins_RR < near,
        log_probability_RRN[..., :near].logsumexp(-1),
        log_probability_RRN[..., near:].logsumexp(-1),
    )
    masked_msa = distogram_logits_RRN.new_zeros(())
    chosen = chosen_SR > 0
    if masked_msa_logits_SRN is not None and chosen.any():
        masked_msa = F.cross_entropy(masked_msa_logits_SRN[chosen], true_msa_SR[chosen])
    return Losses(_mean(error_RR, known_RR), _mean(-contact_RR, apart_RR), masked_msa)


def _mean(values: Tensor, counted: Tensor) -> Tensor:
    # Not values * counted: infinities outside must not become NaN.
    return torch.where(counted, values, torch.zeros_like(values)).sum() / counted.sum().clamp(min=1)
