"""What training minimises: distances, contacts and masked residues (AlphaFold 2 supplement, 1.9.8 and 1.9.9).

Shape suffixes: S MSA rows, R residues, N bins or classes.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor

from bioattn.models.evoformer.heads import contact_bins, distance_bins
from bioattn.structures.contacts import MIN_SEPARATION


@dataclass(frozen=True, slots=True)
class Losses:
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
