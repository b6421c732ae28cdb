"""How many samples fit into a forward pass, seen in a trial of one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile

ACTIVATION_BYTES = 1 << 25
"""What the widest tensor of a batch may take, so that any number of samples runs in flat memory."""


def fitting_batch(forward_one: Callable[[], object], most: int) -> int:
    """Samples per forward pass, 1 to `most`, whose widest tensor stays within `ACTIVATION_BYTES`.

    forward_one: runs one sample. The trial listens to all attention, so that predictions with and without it form
    the same batches.
    """
    meter = _Meter()
    with meter, capture(["*"], meter, value_weighted=True):
        forward_one()
    return max(1, min(most, ACTIVATION_BYTES // max(1, meter.widest, meter.attention)))


class _Meter(TorchFunctionMode):
    """Notes the bytes of the widest tensor any operation makes, and of all attention together."""

    def __init__(self) -> None:
        super().__init__()
        self.widest = 0
        self.attention = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call through and look at what comes back."""
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.widest = max(self.widest, made.numel() * made.element_size())
        return made

    def receive(
        self, _site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        for tensor in (weights, value_weighted):
            self.attention += 0 if tensor is None else tensor.numel() * tensor.element_size()
