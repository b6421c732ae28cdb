"""The linear layer of the MSA/pair model."""

from torch import Tensor, nn

from bioattn.attention.cpu.matmul import linear


class Projection(nn.Linear):
    """A linear layer that multiplies in the type of its weight, with the fastest available product."""

    def forward(self, input: Tensor) -> Tensor:
        """(..., inputs) → (..., outputs), in the weight's type."""
        return linear(input.to(self.weight.dtype), self.weight, self.bias)
