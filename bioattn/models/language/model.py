"""The layers of a language model: one transformer block, stacked as an encoder, a decoder, or both.

Shape suffixes: B sequences, L tokens (of the decoder or the only stack), S tokens of the source (the encoder of an
encoder-decoder), C channels, H heads, D channels of a head, V tokens of the vocabulary.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from bioattn.attention.multi_head import KeysAndValues, MultiHeadAttention
from bioattn.attention.position import AddedPositions, RelativePositions, sloping_bias
from bioattn.attention.site import AttentionSite
from bioattn.choices import PositionEncoding
from bioattn.models.language.config import Activation, FineTuned, LanguageModelConfig, Norm, Output, Shape
from bioattn.models.language.layers import FIRST_SPREAD, LowRank, PrecedingTokens, Readout
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import MASK, PAD, SPECIAL, Vocabulary

TOKENS, SOURCE_TOKENS = "tokens", "source_tokens"
"""Columns of the sample table with the lengths of ragged axes, and, in the singular, the kinds of these axes."""
MASKED_IN_TRAINING = 0.15 * 0.8
"""Share of `<mask>` that embeddings with token dropout are scaled for (ESM)."""
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.GELU: F.gelu,
    Activation.GELU_TANH: partial(F.gelu, approximate="tanh"),
    Activation.RELU: F.relu,
    Activation.SILU: F.silu,
}


@dataclass(slots=True)
class Cache:
    """`KeysAndValues` of each block, for generation token by token."""

    of_block: dict[int, KeysAndValues] = field(default_factory=partial(defaultdict, KeysAndValues))
    tokens_BL: Tensor | None = None
    """What was read, where n-grams are embedded."""

    @property
    def length(self) -> int:
        return self.of_block[0].length


class Block(nn.Module):
    """Self-attention, attention on a source where there is one, and a feed-forward network.

    Each is normalised before and added to what came in (pre-norm, Xiong et al. 2020); with `post_norm` the sum is
    normalised instead.
    """

    def __init__(self, config: LanguageModelConfig, stack: str, number: int, *, source: bool = False) -> None:
        """stack: `encoder` or `decoder`; source: whether the block also attends on a source."""
        super().__init__()
        channels, hidden = config.channels, config.hidden_channels
        self.causal = stack == "decoder"
        self.post_norm = config.form.post_norm
        self.activate = ACTIVATIONS[config.form.activation]
        own = SOURCE_TOKENS if stack == "encoder" and config.shape is Shape.ENCODER_DECODER else TOKENS
        self.normalise_self = _norm(config)
        rotary = config.positions is PositionEncoding.ROTARY
        self.self_attention = _attention(config, f"language.{stack}.{number}", own, own, rotary=rotary)
        self.source_attention = self.normalise_source = None
        if source:
            site = f"language.source.{number}"
            self.source_attention = _attention(config, site, TOKENS, SOURCE_TOKENS, rotary=False)
            self.normalise_source = _norm(config)
        self.normalise_hidden = _norm(config)
        self.widen = nn.Linear(channels, hidden)
        self.gate = nn.Linear(channels, hidden) if config.form.gated else None
        self.narrow = nn.Linear(hidden, channels)
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(
        self,
        tokens_BLC: Tensor,
        mask: Tensor | None,
        source_BSC: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: KeysAndValues | None = None,
        bias: Tensor | None = None,
        place_B: Tensor | None = None,
    ) -> Tensor:
        """Tokens (B, L, C) → (B, L, C). mask, source_mask: bool (B, 1, 1, L) and (B, 1, 1, S).

        bias: (H, L, keys), of self-attention. place_B: of an encoder, the one token of each sequence that is asked
        for; then (B, 1, C).
        """
        given_BLC = tokens_BLC if self.post_norm else self.normalise_self(tokens_BLC)
        query_BLC = given_BLC
        if place_B is not None:
            row_B = torch.arange(len(place_B), device=place_B.device)
            query_BLC, tokens_BLC = given_BLC[row_B, place_B][:, None], tokens_BLC[row_B, place_B][:, None]
            bias = None if bias is None else bias[:, place_B].transpose(0, 1)[:, :, None]
        chosen = {"mask": mask, "bias": bias, "causal": self.causal, "cache": cache, "place_B": place_B}
        added_BLC = self.self_attention(query_BLC, given_BLC, given_BLC, **chosen)
        tokens_BLC = tokens_BLC + self.dropout(added_BLC)
        if self.post_norm:
            tokens_BLC = self.normalise_self(tokens_BLC)
        if self.source_attention is not None and self.normalise_source is not None:
            given_BLC = tokens_BLC if self.post_norm else self.normalise_source(tokens_BLC)
            added_BLC = self.source_attention(given_BLC, source_BSC, source_BSC, mask=source_mask)
            tokens_BLC = tokens_BLC + self.dropout(added_BLC)
            if self.post_norm:
                tokens_BLC = self.normalise_source(tokens_BLC)
        given_BLC = tokens_BLC if self.post_norm else self.normalise_hidden(tokens_BLC)
        wide = self.widen(given_BLC)
        hidden = self.activate(wide) if self.gate is None else self.activate(self.gate(given_BLC)) * wide
        tokens_BLC = tokens_BLC + self.dropout(self.narrow(hidden))
        return self.normalise_hidden(tokens_BLC) if self.post_norm else tokens_BLC


class LanguageModel(nn.Module):
    """Tokens in, logits of tokens out; the output layer shares its matrix with the embeddings."""

    def __init__(
        self,
        config: LanguageModelConfig,
        vocabulary: Vocabulary | None = None,
        fine_tuned: FineTuned | None = None,
    ) -> None:
        """vocabulary: a published one; None: that of the alphabet."""
        super().__init__()
        self.config = config
        form = config.form
        self.vocabulary = vocabulary or Vocabulary(config.alphabet, config.kmer)
        both = config.shape is Shape.ENCODER_DECODER
        self.num_tokens = len(self.vocabulary.tokens) + (config.sentinels if both else 0)
        self.embed = nn.Embedding(self.num_tokens, config.channels)
        nn.init.normal_(self.embed.weight, std=FIRST_SPREAD)
        self.add_positions = AddedPositions(config.positions, config.channels, config.context)
        num_words = len(self.vocabulary.tokens) - len(SPECIAL)
        self.preceding = PrecedingTokens(config, num_words) if config.ngram > 1 or config.period else None
        self.normalise_embedded = _norm(config) if form.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()
        stacks = ["encoder", "decoder"] if both else [str(config.shape)]
        self.relative = nn.ModuleDict()
        for stack in stacks if form.buckets else ():
            causal = stack == "decoder"
            self.relative[stack] = RelativePositions(
                config.num_heads, form.buckets, form.farthest, causal=causal
            )
        self.encoder = self.decoder = None
        if "encoder" in stacks:
            blocks = (Block(config, "encoder", number) for number in range(config.layers))
            self.encoder = nn.ModuleList(blocks)
        self.normalise_encoded = _norm(config) if both else None
        if "decoder" in stacks:
            numbers = range(form.decoder_layers or config.layers)
            self.decoder = nn.ModuleList(Block(config, "decoder", n, source=both) for n in numbers)
        self.normalise = nn.Identity() if form.post_norm else _norm(config)
        dense = form.output is Output.DENSE
        self.output_dense = nn.Linear(config.channels, config.channels) if dense else None
        self.normalise_output = _norm(config) if dense else None
        self.output_VC = None if form.tied else nn.Parameter(self.embed.weight.detach().clone())
        self.bias_V = nn.Parameter(torch.zeros(self.num_tokens))
        aligned = config.alphabet is Alphabet.ALIGNMENT
        self.profile_LV = nn.Parameter(torch.zeros(config.context, self.num_tokens)) if aligned else None
        # Buffers, as no training of this model learns them.
        contacts = (config.layers, config.num_heads) if form.contacts else None
        self.contact_weight_SH: Tensor | None
        self.contact_bias_1: Tensor | None
        self.register_buffer("contact_weight_SH", None if contacts is None else torch.zeros(contacts))
        self.register_buffer("contact_bias_1", None if contacts is None else torch.zeros(1))
        self.readout: Readout | None = None
        if fine_tuned is not None:
            self.fine_tune(fine_tuned)

    def fine_tune(self, fine_tuned: FineTuned | None) -> None:
        """Merge the adapters of an earlier fine-tuning into their matrices, take its readout away, and add new
        ones. Of a model with adapters all other weights no longer learn."""
        stacks = [stack for stack in (self.encoder, self.decoder) if stack is not None]
        matrices = [each for stack in stacks for each in stack.modules() if isinstance(each, nn.Linear)]
        for layer in matrices:
            if is_parametrized(layer, "weight"):
                remove_parametrizations(layer, "weight")
        self.readout = None
        if fine_tuned is not None:
            if fine_tuned.lora:
                self.requires_grad_(False)
                for layer in matrices:
                    added = LowRank(layer.weight, fine_tuned.lora, fine_tuned.alpha)
                    register_parametrization(layer, "weight", added, unsafe=True)
            self.readout = Readout(self.config.channels, self.config.shape, fine_tuned).to(self.bias_V.device)

    def predictions(self, tokens_BL: Tensor) -> list[Tensor]:
        """What `Readout.forward` makes of sequences."""
        assert self.readout is not None
        outputs: list[Tensor] = self.readout(self.embeddings(tokens_BL), tokens_BL)
        return outputs

    def embeddings(self, tokens_BL: Tensor) -> Tensor:
        """Normalised channels (B, L, C) behind the last layer; of an encoder-decoder those of its encoder."""
        return self.layers(tokens_BL, [self.config.layers])[0]

    def layers(self, tokens_BL: Tensor, numbers: Sequence[int]) -> list[Tensor]:
        """Channels (B, L, C) behind some layers: 0 for the embeddings, and the last one normalised, as
        `embeddings`."""
        both = self.config.shape is Shape.ENCODER_DECODER
        normalise = self.normalise_encoded if both else self.normalise
        kept: dict[int, Tensor | None] = dict.fromkeys(numbers)
        last_BLC = self._through(self.read_by, tokens_BL, kept=kept)
        kept[self.config.layers] = last_BLC if normalise is None else normalise(last_BLC)
        return [each for number in numbers if (each := kept[number]) is not None]

    @property
    def read_by(self) -> str:
        """The stack that embeddings come from."""
        return "decoder" if self.encoder is None else "encoder"

    def forward(self, tokens_BL: Tensor, source_BS: Tensor | None = None) -> Tensor:
        """Logits (B, L, V) of tokens (B, L): of the masked ones in an encoder, of the next ones in a decoder.

        source_BS: what the encoder of an encoder-decoder reads.
        """
        return self.logits(self.hidden(tokens_BL, source_BS), torch.arange(tokens_BL.shape[1]))

    def logits(self, hidden_BLC: Tensor, places: Tensor | None = None) -> Tensor:
        """Logits (..., V) of normalised channels (..., C). places: positions of the tokens in rows of an
        alignment, which broadcast to (...)."""
        if self.output_dense is not None and self.normalise_output is not None:
            form = self.config.form
            activate = F.gelu if form.gated else ACTIVATIONS[form.activation]
            hidden_BLC = self.normalise_output(activate(self.output_dense(hidden_BLC)))
        logits = F.linear(
            hidden_BLC, self.embed.weight if self.output_VC is None else self.output_VC, self.bias_V
        )
        return logits if self.profile_LV is None else logits + self.profile_LV[places]

    def hidden(
        self,
        tokens_BL: Tensor,
        source_BS: Tensor | None = None,
        cache: Cache | None = None,
        place_B: Tensor | None = None,
    ) -> Tensor:
        """Channels (B, L, C) behind the last block, normalised. cache: tokens follow those that it holds.

        place_B: of an encoder, the one token of each sequence whose channels (B, 1, C) are asked for.
        """
        source_BSC = source_mask = None
        if source_BS is not None:
            source_BSC, source_mask = self.encode(source_BS), _mask(source_BS)
        stack = "encoder" if self.decoder is None else "decoder"
        hidden_BLC: Tensor = self.normalise(
            self._through(stack, tokens_BL, source_BSC, source_mask, cache, place_B)
        )
        return hidden_BLC

    def encode(self, source_BS: Tensor) -> Tensor:
        """Channels (B, S, C) of the source of an encoder-decoder."""
        assert self.normalise_encoded is not None
        encoded: Tensor = self.normalise_encoded(self._through("encoder", source_BS))
        return encoded

    def _through(
        self,
        stack: str,
        tokens_BL: Tensor,
        source_BSC: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: Cache | None = None,
        place_B: Tensor | None = None,
        kept: dict[int, Tensor | None] | None = None,
    ) -> Tensor:
        """kept: gets what goes into the blocks of its numbers."""
        first = 0 if cache is None else cache.length
        bias = None
        if stack in self.relative:
            bias = self.relative[stack](tokens_BL.shape[1], first + tokens_BL.shape[1])
        elif self.config.form.slopes:
            bias = sloping_bias(self.config.num_heads, tokens_BL.shape[1], tokens_BL.device)
        tokens_BLC = self._embedded(tokens_BL, first, cache)
        # Behind the last token of a sequence a decoder's padding is seen by padding alone.
        mask = None if stack == "decoder" else _mask(tokens_BL)
        for number, block in enumerate(getattr(self, stack)):
            if kept is not None and number in kept:
                kept[number] = tokens_BLC
            held = None if cache is None else cache.of_block[number]
            place = place_B if number == self.config.layers - 1 else None
            tokens_BLC = block(tokens_BLC, mask, source_BSC, source_mask, held, bias, place)
        return tokens_BLC

    def _embedded(self, tokens_BL: Tensor, first: int, cache: Cache | None) -> Tensor:
        """Embeddings (B, L, C) with positions from `first` on."""
        tokens_BLC: Tensor = self.embed(tokens_BL)
        if self.config.form.token_dropout:
            masked_BL = tokens_BL == MASK
            share_B = masked_BL.sum(-1) / (tokens_BL != PAD).sum(-1)
            scale_B = (1 - MASKED_IN_TRAINING) / (1 - share_B)
            tokens_BLC = tokens_BLC.masked_fill(masked_BL[..., None], 0.0)
            tokens_BLC = tokens_BLC * scale_B[:, None, None].to(tokens_BLC.dtype)
        if self.preceding is not None:
            earlier_BL = None if cache is None else cache.tokens_BL
            tokens_BLC = tokens_BLC + self.preceding(tokens_BL, earlier_BE=earlier_BL, first=first)
            if cache is not None:
                cache.tokens_BL = tokens_BL if earlier_BL is None else torch.cat([earlier_BL, tokens_BL], 1)
        tokens_BLC = self.add_positions(tokens_BLC, first=first)
        if self.normalise_embedded is not None:
            tokens_BLC = self.normalise_embedded(tokens_BLC)
        embedded_BLC: Tensor = self.dropout(tokens_BLC)
        return embedded_BLC


def _norm(config: LanguageModelConfig) -> nn.Module:
    kind = nn.RMSNorm if config.form.norm is Norm.RMS else nn.LayerNorm
    return kind(config.channels, eps=config.form.epsilon)


def _attention(
    config: LanguageModelConfig, name: str, queries: str, keys: str, *, rotary: bool
) -> MultiHeadAttention:
    """A layer whose site has this name. queries, keys: columns with the lengths of its axes."""
    return MultiHeadAttention(
        query_channels=config.channels,
        output_channels=config.channels,
        num_heads=config.num_heads,
        head_channels=config.head_channels,
        site=AttentionSite.of_ragged(name, config.num_heads, queries, keys),
        rotary=rotary,
        frequencies=config.form.frequencies,
        key_bias=config.form.key_bias,
        normalised=config.form.query_norm,
    )


def _mask(tokens_BL: Tensor) -> Tensor | None:
    """Which tokens may be attended, (B, 1, 1, L); None for all."""
    known_BL = tokens_BL != PAD
    return None if bool(known_BL.all()) else known_BL[:, None, None, :]
