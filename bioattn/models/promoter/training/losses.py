"""Losses over measured cells.

Shape suffixes: B promoters, T treatments.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from bioattn.models.promoter.training.config import Loss


def cell_losses(answers_BT: Tensor, targets_BT: Tensor, loss: Loss, huber_delta: float) -> Tensor:
    """The loss of each cell (B, T); 0 where the target is NaN."""
    measured_BT = torch.isfinite(targets_BT)
    targets_BT = torch.where(measured_BT, targets_BT, 0.0)
    match loss:
        case Loss.MSE:
            losses_BT = (answers_BT - targets_BT).square()
        case Loss.HUBER:
            losses_BT = F.huber_loss(answers_BT, targets_BT, reduction="none", delta=huber_delta)
        case Loss.BINARY:
            losses_BT = F.binary_cross_entropy_with_logits(answers_BT, targets_BT, reduction="none")
    return losses_BT * measured_BT


def measured_cells(targets_BT: Tensor) -> Tensor:
    """How many cells have a target, a scalar; 1 when none has, so that it can be divided by."""
    return torch.isfinite(targets_BT).sum().clamp(min=1)


def masked_mean(losses_BT: Tensor, targets_BT: Tensor) -> Tensor:
    """Mean over measured cells; 0 when there is none."""
    return losses_BT.sum() / measured_cells(targets_BT)


def classifier_free_loss(
    answers_BT: Tensor,
    unconditional_B1: Tensor | None,
    targets_BT: Tensor,
    measured: Tensor,
    *,
    loss: Loss,
    huber_delta: float,
    probability: float,
) -> Tensor:
    """The expected loss when each cell's treatment is dropped with `probability` (Ho & Salimans 2022).

    measured: the `measured_cells` of the whole batch; of a part of it this is what the part adds to the loss.

    Dropping at random would ask the unconditional token about a random part of the cells; asking it about all
    of them, weighted by the probability, has the same expectation and less noise.
    """
    conditional = cell_losses(answers_BT, targets_BT, loss, huber_delta).sum() / measured
    if unconditional_B1 is None:
        return conditional
    dropped_BT = cell_losses(unconditional_B1.expand_as(targets_BT), targets_BT, loss, huber_delta)
    return (1 - probability) * conditional + probability * (dropped_BT.sum() / measured)
