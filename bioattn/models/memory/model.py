"""An end-to-end memory network: a question reads facts, hop after hop (Sukhbaatar et al. 2015).

Shape suffixes: B questions, F facts, W words of a text, K hops, D channels, A answers.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Axis, Tile
from bioattn.models.memory.family import MemoryModelConfig

PAD = 0
"""No word; words are counted from 1."""
FACTS = "facts"
"""Column of the sample table with the number of facts."""
SITE = "memory.read"
FIRST = 0.4
"""Standard deviation of the first vectors of words. So long ones are most like themselves, untrained too: a
question about a word that no training question had finds its facts; with 0.1 it did not."""


class Reading(NamedTuple):
    logits_BA: Tensor
    weights_BKF: Tensor


class MemoryNetwork(nn.Module):
    """Questions and facts in, answers out.

    Hop k compares what is known with the facts by embedding k and adds what embedding k + 1 says of those it
    reads; embedding 0 is also that of questions, and the last one that of answers (adjacent tying). A text is the
    sum of its words times a vector for the place of each, which begins as their position encoding and is learned.
    """

    answers: Tensor

    def __init__(self, config: MemoryModelConfig) -> None:
        super().__init__()
        self.config = config
        tables, channels = config.hops + 1, config.channels
        self.words = nn.Parameter(torch.empty(tables, len(config.words) + 1, channels).normal_(std=FIRST))
        self.places = nn.Parameter(position_encoding(config.places, channels).repeat(tables, 1, 1))
        number = {word: place for place, word in enumerate(config.words, start=1)}
        answers = torch.from_numpy(np.array([number[word] for word in config.answers]))
        self.register_buffer("answers", answers, persistent=False)
        self.site = AttentionSite(
            name=SITE,
            axes=(
                Axis("sample"),
                Axis("query", "hop", coordinates=tuple(range(1, config.hops + 1))),
                Axis("key", "fact", lengths=FACTS),
            ),
            heads=(),
        )

    def forward(self, question_BW: Tensor, facts_BFW: Tensor, *, linear: bool = False) -> Reading:
        """Texts are numbers of words, padded on the right with `PAD`, and stories with facts without words.

        linear: weight facts by their scores and not by the softmax, as training may begin.
        """
        known_BF = (facts_BFW != PAD).any(-1)
        state_B1D = self._embedded(question_BW, 0)[:, None]
        keys_BFD = self._embedded(facts_BFW, 0)
        weights = []
        hops = self.config.hops
        for hop in range(hops):
            values_BFD = self._embedded(facts_BFW, hop + 1)
            query_B1D = state_B1D * self.config.channels**0.5  # the score divides by it
            if linear:
                weights_B1F = DotScore().logits(query_B1D, keys_BFD) * known_BF[:, None]
            else:
                weights_B1F = attention_weights(
                    query_B1D,
                    keys_BFD,
                    score=DotScore(),
                    mask=known_BF[:, None],
                    site=self.site,
                    tile=Tile("query", hop, hops),
                    value=values_BFD,
                )
            weights.append(weights_B1F)
            state_B1D = state_B1D + weights_B1F @ values_BFD
            keys_BFD = values_BFD
        logits_BA = state_B1D.squeeze(1) @ self.words[-1, self.answers].T
        return Reading(logits_BA, torch.cat(weights, 1))

    def _embedded(self, text: Tensor, table: int) -> Tensor:
        """Texts (..., W) as vectors (..., D)."""
        known = (text != PAD).unsqueeze(-1)
        words = self.words[table][text] * known
        embedded: Tensor = (words * self.places[table, : text.shape[-1]]).sum(-2)
        return embedded


def position_encoding(places: int, channels: int) -> Tensor:
    """(W, D) factors (1 − w/W) − (d/D)(1 − 2 w/W), w and d from 1 (Sukhbaatar et al. 2015, section 4.1)."""
    place_W1 = np.arange(1, places + 1, dtype=np.float32)[:, None] / np.float32(places)
    channel_D = np.arange(1, channels + 1, dtype=np.float32) / np.float32(channels)
    return torch.from_numpy((1 - place_W1) - channel_D * (1 - 2 * place_W1))
