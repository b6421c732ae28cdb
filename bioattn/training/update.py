"""One update of the weights from the gradients of many parts, computed in turn and by several processes."""

from collections.abc import Iterable

import torch
from torch import nn

from bioattn.system.signals import StopRequest
from bioattn.training.distributed import Processes
from bioattn.training.task import PartLoss


def update_weights(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parts: Iterable[PartLoss],
    *,
    learning_rate: float,
    gradient_clip: float,
    processes: Processes,
    stop: StopRequest,
) -> float:
    """Take one step; return its loss, over all processes.

    parts: those of this process, made one at a time: each keeps what its backward pass needs until that is done.

    Raises: LostProcess before any weight is changed.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad(set_to_none=True)
    reported = []
    for part in parts:
        part.objective.backward()
        reported.append(part.reported.detach())
    if processes.count > 1:
        device = next(model.parameters()).device
        own = torch.stack(reported).sum() if reported else torch.zeros((), device=device)
        reported = [processes.sum_gradients(model, own, stop)]
    torch.nn.utils.clip_grad_norm_(model.parameters(), gradient_clip)
    optimizer.step()
    return sum(float(loss) for loss in reported)
