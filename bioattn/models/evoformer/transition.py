"""Transitions of the MSA and of the pair representation (AlphaFold 2 supplement, Algorithms 9 and 15).

Shape suffixes: C channels, N all other axes together.
"""

import torch
from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, he_normal_, linear
from bioattn.models.evoformer.tiles import add_update

TILE_POSITIONS = 512


class Transition(nn.Module):
    """A two-layer perceptron at every position; masked positions too, as in AlphaFold."""

    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(channels)
        self.expand = linear(channels, factor * channels)
        self.contract = final_linear(factor * channels, channels)
        with torch.no_grad():
            he_normal_(self.expand.weight)

    def forward(self, state: Tensor) -> Tensor:
        """state + update, shape (..., C) (in place without autograd)."""

        def update(part_NC: Tensor, _rows: slice) -> Tensor:
            hidden = self.expand(self.normalise(part_NC).to(self.expand.weight.dtype))
            contracted: Tensor = self.contract(torch.relu(hidden))
            return contracted

        return add_update(state.view(-1, state.shape[-1]), update, TILE_POSITIONS).view(state.shape)
