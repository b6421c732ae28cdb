"""Confidence of a prediction from logits: pLDDT, predicted aligned error, pTM (AlphaFold 2 supplement, 1.9.6-7).

Shape suffixes: R residues, N bins.
"""

import torch
from torch import Tensor

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


def predicted_tm_score(logits_RRN: Tensor, residue_weights_R: Tensor | None = None) -> Tensor:
    """Expected TM-score of the prediction, 0..1 (a scalar tensor): the best over residues to superimpose at.

    residue_weights_R: weight of each residue, 0..1; None = equal weights.
    """
    if residue_weights_R is None:
        residue_weights_R = logits_RRN.new_ones(logits_RRN.shape[0])
    # d0 of Yang & Skolnick 2004, equation 5, which is not defined for fewer than 19 residues.
    length = max(int(residue_weights_R.sum()), 19)
    d0 = 1.24 * (length - 15) ** (1 / 3) - 1.8
    score_N = 1 / (1 + (aligned_error_centres(logits_RRN) / d0).square())
    score_RR = logits_RRN.float().softmax(-1) @ score_N
    weight_RR = residue_weights_R[:, None] * residue_weights_R[None, :]
    score_R = (score_RR * weight_RR).sum(-1) / (1e-8 + weight_RR.sum(-1))
    best: Tensor = score_R[(score_R * residue_weights_R).argmax()]
    return best


def aligned_error_centres(logits_RRN: Tensor) -> Tensor:
    """Centres (N,) of the bins, Å; the last one has no upper edge and is taken as wide as the others."""
    num_bins = logits_RRN.shape[-1]
    width = MAX_ALIGNED_ERROR / (num_bins - 2)
    return (torch.arange(num_bins, device=logits_RRN.device) + 0.5) * width
