"""The arithmetic of a forward pass. Torch is imported when a pass is made."""

from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Precision(StrEnum):
    """Arithmetic of the forward pass; weights, and what residual layers add up, stay float32."""

    FP32 = "fp32"
    BF16 = "bf16"

    def autocast(self, device: "torch.device") -> AbstractContextManager[object]:
        """The context in which a forward pass has this precision."""
        import torch

        return torch.autocast(device.type, dtype=torch.bfloat16) if self is Precision.BF16 else nullcontext()
