"""Transitions of the MSA and of the pair representation (AlphaFold 2 supplement, Algorithms 9 and 15).

Shape suffixes: C channels, N all other axes together.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, relu_linear
from bioattn.models.evoformer.tiled_layers import add_tiled

TILE_ELEMENTS = 1 << 17
"""Elements of a tile: 512 positions of 256 channels. Their hidden activations (2 MB in float32, 1 MB in bfloat16)
stay near the core between the two products, which are already as fast as larger ones."""


class Transition(nn.Module):
    """A two-layer perceptron at every position; masked positions too, as in AlphaFold."""

    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(channels)
        self.expand = relu_linear(channels, factor * channels)
        self.contract = final_linear(factor * channels, channels)

    def forward(self, state: Tensor) -> Tensor:
        """state + update, shape (..., C) (in place without autograd)."""

        def update(_rows: slice, part_NC: Tensor) -> Tensor:
            contracted: Tensor = self.contract(self.expand(self.normalise(part_NC)).relu_())
            return contracted

        flat_NC = state.view(-1, state.shape[-1])
        return add_tiled(update, TILE_ELEMENTS, sliced=(flat_NC,), parameters=self.parameters()).view(
            state.shape
        )
