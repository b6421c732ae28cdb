"""Bins of CB-CB distances, and contact probabilities from them (AlphaFold 2 supplement, 1.9.8).

64 bins: the first holds everything below 2.3125 Å, the last everything above 21.6875 Å. Models with another number
of bins divide the same range.

Shape suffixes: R residues, N bins.
"""

import torch
from torch import Tensor

FIRST_EDGE, LAST_EDGE = 2.3125, 21.6875
"""Å between the first two and the last two bins."""
CONTACT_DISTANCE = 8.0
"""Å below which two residues are in contact."""


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
