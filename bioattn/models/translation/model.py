"""The layers of translation models: an encoder of the source, and a decoder that writes the target step by step.

A decoder goes on from a `State`: all steps of a known target at once, or one step after the other; both give the
same. Shape suffixes: B pairs, S source tokens, T steps of the decoder, C channels, H heads, D channels of a head,
R distances, V tokens of the target's vocabulary, N layers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention, TransformerLayer
from bioattn.attention.site import AttentionSite
from bioattn.models.translation.family import Architecture, Cell, Encoder, TranslationModelConfig
from bioattn.models.translation.layers import SLOTS, SOURCE_TOKENS, TARGET_TOKENS, Recurrence, State
from bioattn.models.translation.turing import TuringMachine
from bioattn.sequences.pairs import PairVocabulary
from bioattn.sequences.vocabulary import PAD

STEEPNESS = 3.0
"""Factor of biases for distances, beside ln(1 + tokens that can be attended): an update changes a logit by more
than the learning rate, and many tokens do not drown the right one (Chiang & Cholak 2022)."""


class Distances(nn.Module):
    """A learned bias of attention logits for the distance between query and key (Shaw et al. 2018).

    Between a decoder's step and a source token there are two: from the source's start, and from its end, so that
    a reversed order is learned as easily. Biases grow with the logarithm of the number of keys, so that what was
    learned from short sequences is as sharp in long ones.
    """

    def __init__(self, num_heads: int, reach: int, *, of_source: bool) -> None:
        super().__init__()
        self.reach = reach
        self.start_RH = nn.Parameter(torch.zeros(2 * reach + 1, num_heads))
        self.end_RH = nn.Parameter(torch.zeros(2 * reach + 1, num_heads)) if of_source else None

    def forward(self, first: int, queries: int, known_BS: Tensor, *, causal: bool = False) -> Tensor:
        """(B or 1, H, Q, S) for the queries from `first` on; causal: they see the keys up to their own."""
        keys, device = known_BS.shape[1], known_BS.device
        # All distances on a diagonal are equal: a number is looked up for each, and rows are windows of these.
        place_R = torch.arange(1 - keys, queries, device=device)
        bias = self._looked_up(self.start_RH, first + place_R).unfold(0, keys, 1).flip(-1).movedim(0, 1)[None]
        if self.end_RH is not None:
            from_end_BR = first + keys + place_R - known_BS.sum(-1, keepdim=True)
            bias = bias + self._looked_up(self.end_RH, from_end_BR).unfold(1, keys, 1).movedim(1, 2)
        seen = known_BS.sum(-1)[:, None, None, None]
        if causal:
            seen = torch.arange(first + 1, first + queries + 1, device=device)[:, None]
        return STEEPNESS * torch.log1p(seen) * bias

    def _looked_up(self, table_RH: Tensor, distance: Tensor) -> Tensor:
        return F.embedding(distance.clamp(-self.reach, self.reach) + self.reach, table_RH)


class RecurrentEncoder(nn.Module):
    """The cell in both directions.

    Sources are turned round by an index: over torch's packed sequences the gradient takes time of the order S².
    """

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        kind = nn.LSTM if config.cell is Cell.LSTM else nn.GRU
        self.cells = nn.ModuleList(
            kind(config.channels, config.channels // 2, batch_first=True) for _ in range(2 * config.layers)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, source_BSC: Tensor, known_BS: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, S, C), and both directions' last states (B, C)."""
        last_B1 = known_BS.sum(-1, keepdim=True) - 1
        place_S = torch.arange(known_BS.shape[1], device=known_BS.device)
        turned_BS1 = (last_B1 - place_S).where(known_BS, place_S)[..., None]
        states_BSC = source_BSC
        for number, (ahead, back) in enumerate(zip(self.cells[::2], self.cells[1::2], strict=True)):
            inputs_BSC = self.dropout(states_BSC) if number else states_BSC
            ahead_BSC, _ = ahead(inputs_BSC)
            back_BSC, _ = back(inputs_BSC.take_along_dim(turned_BS1, 1))
            states_BSC = torch.cat([ahead_BSC, back_BSC.take_along_dim(turned_BS1, 1)], -1)
        rows = torch.arange(len(source_BSC), device=source_BSC.device)
        ends_BC = torch.cat([ahead_BSC[rows, last_B1[:, 0]], back_BSC[rows, last_B1[:, 0]]], -1)
        return states_BSC, ends_BC


class ConvEncoder(nn.Module):
    """Convolutions that are normalised before and added to what came in."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(config.channels) for _ in range(config.layers))
        sizes = config.channels, config.channels, config.kernel
        self.convolutions = nn.ModuleList(nn.Conv1d(*sizes, padding="same") for _ in range(config.layers))

    def forward(self, source_BSC: Tensor, known_BS: Tensor) -> tuple[Tensor, Tensor]:
        """States (B, S, C), and their mean (B, C)."""
        known_BS1 = known_BS[..., None]
        for normalise, convolve in zip(self.norms, self.convolutions, strict=True):
            inputs_BSC = normalise(source_BSC) * known_BS1
            source_BSC = source_BSC + F.gelu(convolve(inputs_BSC.transpose(1, 2))).transpose(1, 2)
        source_BSC = source_BSC * known_BS1
        return source_BSC, source_BSC.sum(1) / known_BS1.sum(1)


class RecurrentTranslator(nn.Module):
    """A recurrent decoder, with or without attention to the source.

    The first layer reads the prefix of the target; what it attends to, the further layers read too.
    """

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        channels = config.channels
        self.channels = channels
        self.encoder = (ConvEncoder if config.encoder is Encoder.CONV else RecurrentEncoder)(config)
        self.attention, self.distances = None, None
        if config.architecture is Architecture.RECURRENT_ATTENTION:
            heads = config.num_heads
            self.attention = MultiHeadAttention(
                query_channels=channels,
                output_channels=channels,
                num_heads=heads,
                head_channels=channels // heads,
                score=config.score,
                site=AttentionSite.of_ragged("translation.source", heads, TARGET_TOKENS, SOURCE_TOKENS),
            )
            if config.reach:
                self.distances = Distances(config.num_heads, config.reach, of_source=True)
        self.lower = Recurrence(config, channels, 1)
        self.upper = Recurrence(config, 2 * channels, config.layers - 1) if config.layers > 1 else None
        self.begin_state = nn.Linear(channels, self.lower.width)
        self.aligned = config.aligned
        self.combine = nn.Linear((3 if config.aligned else 2) * channels, channels)
        self.dropout = nn.Dropout(config.dropout)

    def begin(self, source_BSC: Tensor, known_BS: Tensor) -> State:
        """The state before the first step."""
        states_BSC, summary_BC = self.encoder(source_BSC, known_BS)
        state = State(known_BS)
        state.tensors["lower"] = torch.tanh(self.begin_state(summary_BC))[:, None]
        if self.upper is not None:
            state.tensors["upper"] = summary_BC.new_zeros(len(known_BS), self.upper.layers, self.upper.width)
        if self.aligned:
            state.tensors["source"] = states_BSC * known_BS[..., None]
        if self.attention is None:
            state.tensors["summary"] = summary_BC[:, None]
        else:
            state.caches["source"].extended(*self.attention.projected(states_BSC, states_BSC))
        return state

    def advance(self, prefix_BTC: Tensor, state: State) -> Tensor:
        """What is known (B, T, C) of the tokens behind each of the next tokens of the prefix."""
        steps = prefix_BTC.shape[1]
        hidden_BTC, state.tensors["lower"] = self.lower(prefix_BTC, state.tensors["lower"])
        hidden_BTC = self.dropout(hidden_BTC)
        if self.attention is None:
            context_BTC = state.tensors["summary"].expand(-1, steps, -1)
        else:
            bias = None if self.distances is None else self.distances(state.step, steps, state.known_BS)
            mask, cache = _mask(state.known_BS), state.caches["source"]
            context_BTC = self.attention(hidden_BTC, None, None, mask=mask, bias=bias, cache=cache)
        if self.upper is not None:
            both_BTC = torch.cat([hidden_BTC, context_BTC], -1)
            hidden_BTC, state.tensors["upper"] = self.upper(both_BTC, state.tensors["upper"])
        known = [hidden_BTC, context_BTC]
        if self.aligned:
            # Behind `<cls>`; behind the source there is nothing.
            own_BTC = state.tensors["source"][:, state.step + 1 : state.step + 1 + steps]
            known.append(F.pad(own_BTC, (0, 0, 0, steps - own_BTC.shape[1])))
        state.step += steps
        return F.gelu(self.combine(torch.cat(known, -1)))


class TransformerTranslator(nn.Module):
    """An encoder and a decoder of transformer layers."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        heads, reach = config.num_heads, config.reach

        def layer(stack: str, number: int, own: str) -> TransformerLayer:
            source = f"translation.source.{number}"
            to_source = AttentionSite.of_ragged(source, heads, TARGET_TOKENS, SOURCE_TOKENS)
            return TransformerLayer(
                channels=config.channels,
                head_channels=config.channels // heads,
                site=AttentionSite.of_ragged(f"translation.{stack}.{number}", heads, own, own),
                source_site=to_source if stack == "decoder" else None,
                dropout=config.dropout,
            )

        self.encoder = nn.ModuleList(layer("encoder", n, SOURCE_TOKENS) for n in range(config.layers))
        self.decoder = nn.ModuleList(layer("decoder", n, TARGET_TOKENS) for n in range(config.layers))
        self.normalise_encoded = nn.LayerNorm(config.channels)
        self.normalise = nn.LayerNorm(config.channels)
        self.within_source = Distances(heads, reach, of_source=False) if reach else None
        self.within_target = Distances(heads, reach, of_source=False) if reach else None
        self.to_source = Distances(heads, reach, of_source=True) if reach else None

    def begin(self, source_BSC: Tensor, known_BS: Tensor) -> State:
        """The state before the first step."""
        bias = None if self.within_source is None else self.within_source(0, known_BS.shape[1], known_BS)
        for layer in self.encoder:
            source_BSC = layer(source_BSC, mask=_mask(known_BS), bias=bias)
        state = State(known_BS)
        encoded_BSC = self.normalise_encoded(source_BSC)
        for number, layer in enumerate(self.decoder):
            assert isinstance(layer, TransformerLayer)
            state.caches[f"source.{number}"].extended(
                *layer.source_attention.projected(encoded_BSC, encoded_BSC)
            )
        return state

    def advance(self, prefix_BTC: Tensor, state: State) -> Tensor:
        """What is known (B, T, C) of the tokens behind each of the next tokens of the prefix."""
        steps = prefix_BTC.shape[1]
        known_1L = state.known_BS.new_ones(1, state.step + steps)
        own = None
        if self.within_target is not None:
            own = self.within_target(state.step, steps, known_1L, causal=True)
        bias = None if self.to_source is None else self.to_source(state.step, steps, state.known_BS)
        for number, layer in enumerate(self.decoder):

            def source(attention: MultiHeadAttention, query: Tensor, number: int = number) -> Tensor:
                mask, cache = _mask(state.known_BS), state.caches[f"source.{number}"]
                found: Tensor = attention(query, None, None, mask=mask, bias=bias, cache=cache)
                return found

            cache = state.caches[f"own.{number}"]
            prefix_BTC = layer(prefix_BTC, bias=own, causal=True, cache=cache, source=source)
        state.step += steps
        normal: Tensor = self.normalise(prefix_BTC)
        return normal


BODIES: dict[Architecture, type[RecurrentTranslator] | type[TransformerTranslator] | type[TuringMachine]] = {
    Architecture.RECURRENT: RecurrentTranslator,
    Architecture.RECURRENT_ATTENTION: RecurrentTranslator,
    Architecture.TRANSFORMER: TransformerTranslator,
    Architecture.TURING_MACHINE: TuringMachine,
}


class Translator(nn.Module):
    """Source tokens and a prefix of the target in, logits of the next target tokens out."""

    def __init__(self, config: TranslationModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source = PairVocabulary(config.source_alphabet, config.source_characters)
        self.target = PairVocabulary(config.target_alphabet, config.target_characters)
        self.embed_source = nn.Embedding(len(self.source.tokens), config.channels)
        self.embed_target = nn.Embedding(len(self.target.tokens), config.channels)
        self.dropout = nn.Dropout(config.dropout)
        self.body = BODIES[config.architecture](config)
        self.output = nn.Linear(config.channels, len(self.target.tokens))

    def forward(self, source_BS: Tensor, prefix_BT: Tensor) -> Tensor:
        """Logits (B, T, V) of the token behind each token of the prefix, which begins with `<cls>`."""
        return self.advance(prefix_BT, self.begin(source_BS))

    def begin(self, source_BS: Tensor) -> State:
        """The state before the first step; sources are `<cls>`, their words, `<eos>`, padded on the right."""
        embedded_BSC: Tensor = self.dropout(self.embed_source(source_BS))
        return self.body.begin(embedded_BSC, source_BS != PAD)

    def advance(self, prefix_BT: Tensor, state: State) -> Tensor:
        """Logits (B, T, V) of the tokens behind the next tokens of the prefix; the state goes on."""
        hidden_BTC = self.body.advance(self.dropout(self.embed_target(prefix_BT)), state)
        logits: Tensor = self.output(self.dropout(hidden_BTC))
        return logits

    def lengths(self, source: int, steps: int) -> dict[str, int]:
        """Lengths of the ragged axes of a pair with so many source tokens and steps."""
        machine = isinstance(self.body, TuringMachine)
        slots = {SLOTS: max(self.config.slots, 2 * source)} if machine else {}
        return {SOURCE_TOKENS: source, TARGET_TOKENS: steps, **slots}


@dataclass(slots=True)
class States(State):
    """What the decoders of all models know between steps."""

    members: Sequence[State] = ()

    def chosen(self, rows: Tensor) -> "States":
        return States(self.known_BS[rows], members=[each.chosen(rows) for each in self.members])


class Ensemble(Translator):
    """Several models as one, whose probabilities are means over them, as Marian and fairseq take them."""

    def __init__(self, models: Sequence[Translator]) -> None:
        """models: of the same vocabularies."""
        nn.Module.__init__(self)
        self.models = list(models)
        self.config, self.source, self.target = models[0].config, models[0].source, models[0].target

    def begin(self, source_BS: Tensor) -> States:
        states = [model.begin(source_BS) for model in self.models]
        return States(states[0].known_BS, members=states)

    def advance(self, prefix_BT: Tensor, state: State) -> Tensor:
        assert isinstance(state, States)
        both = zip(self.models, state.members, strict=True)
        logs_MBTV = torch.stack([model.advance(prefix_BT, own).log_softmax(-1) for model, own in both])
        return logs_MBTV.logsumexp(0) - math.log(len(logs_MBTV))


def _mask(known_BS: Tensor) -> Tensor | None:
    """Which source tokens may be attended, (B, 1, 1, S); None for all."""
    return None if bool(known_BS.all()) else known_BS[:, None, None, :]
