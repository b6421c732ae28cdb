"""What the bodies of translation models share: the state of a decoder, a recurrent cell, names of ragged axes.

Shape suffixes: B pairs, S source tokens, T steps of the decoder, C channels, N layers.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from bioattn.attention.multi_head import KeysAndValues
from bioattn.models.translation.family import Cell, TranslationModelConfig

SOURCE_TOKENS, TARGET_TOKENS, SLOTS = "source_tokens", "target_tokens", "slots"
"""Columns of the sample table with the lengths of ragged axes, and the kinds of these axes."""


@dataclass(slots=True)
class State:
    """What a decoder knows between steps; the first axis of every tensor is the batch."""

    known_BS: Tensor
    """True where the source has a token."""
    step: int = 0
    """Steps done."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    caches: dict[str, KeysAndValues] = field(default_factory=partial(defaultdict, KeysAndValues))

    def chosen(self, rows: Tensor) -> "State":
        """The state of some rows, in this order; a row may be there more than once."""
        caches = {
            name: KeysAndValues(
                None if each.keys is None else each.keys[rows],
                None if each.values is None else each.values[rows],
            )
            for name, each in self.caches.items()
        }
        tensors = {name: each[rows] for name, each in self.tensors.items()}
        return State(self.known_BS[rows], self.step, tensors, defaultdict(KeysAndValues, caches))


class Recurrence(nn.Module):
    """A GRU or LSTM whose state is one tensor (B, N, C or 2 C)."""

    def __init__(self, config: TranslationModelConfig, inputs: int, layers: int) -> None:
        super().__init__()
        kind = nn.LSTM if config.cell is Cell.LSTM else nn.GRU
        between = config.dropout if layers > 1 else 0.0
        self.cell = kind(inputs, config.channels, layers, batch_first=True, dropout=between)
        self.width = config.channels * (2 if config.cell is Cell.LSTM else 1)
        self.layers = layers

    def forward(self, inputs_BTC: Tensor, state_BNC: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs (B, T, C) and the state behind the last step."""
        state_NBC = state_BNC.transpose(0, 1).contiguous()
        if isinstance(self.cell, nn.LSTM):
            hidden, memory = (each.contiguous() for each in state_NBC.chunk(2, -1))
            outputs, after = self.cell(inputs_BTC, (hidden, memory))
            return outputs, torch.cat(after, -1).transpose(0, 1)
        outputs, after = self.cell(inputs_BTC, state_NBC)
        return outputs, after.transpose(0, 1)
