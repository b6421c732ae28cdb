"""The layers of a language model: one transformer block, stacked as an encoder, a decoder, or both.

Shape suffixes: B sequences, L tokens (of the decoder or the only stack), S tokens of the source (the encoder of an
encoder-decoder), C channels, H heads, D channels of a head, V tokens of the vocabulary.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.choices import AttentionScore, PositionEncoding
from bioattn.attention.operator import attend
from bioattn.attention.position import AddedPositions, rotated
from bioattn.attention.score import make_score
from bioattn.attention.site import AttentionSite, Axis
from bioattn.models.language.config import LanguageModelConfig, Shape
from bioattn.sequences.vocabulary import PAD, Vocabulary

FIRST_SPREAD = 0.02
"""Standard deviation of embeddings before training (GPT-2): logits of the tied output begin small."""
TOKENS, SOURCE_TOKENS = "tokens", "source_tokens"
"""Columns of the sample table with the lengths of ragged axes."""


@dataclass(slots=True)
class KeysAndValues:
    """What one attention layer has read so far of a sequence that is being generated, (B, H, L, D) each."""

    keys: Tensor | None = None
    values: Tensor | None = None

    @property
    def length(self) -> int:
        """Tokens read."""
        return 0 if self.keys is None else int(self.keys.shape[-2])

    def extended(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add further tokens; returns all."""
        if self.keys is not None and self.values is not None:
            keys, values = torch.cat([self.keys, keys], dim=-2), torch.cat([self.values, values], dim=-2)
        self.keys, self.values = keys, values
        return keys, values


@dataclass(slots=True)
class Cache:
    """`KeysAndValues` of each block, for generation token by token."""

    of_block: list[KeysAndValues] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens read."""
        return self.of_block[0].length if self.of_block else 0

    def block(self, number: int) -> KeysAndValues:
        """That of one block."""
        if number == len(self.of_block):
            self.of_block.append(KeysAndValues())
        return self.of_block[number]


class Attention(nn.Module):
    """Multi-head dot product attention of tokens on the same sequence, or on another."""

    def __init__(self, config: LanguageModelConfig, site: AttentionSite, *, rotary: bool) -> None:
        super().__init__()
        channels = config.channels
        self.site = site
        self.rotary = rotary
        self.score = make_score(AttentionScore.DOT, config.num_heads, config.head_channels)
        self.project_query = nn.Linear(channels, channels)
        self.project_key = nn.Linear(channels, channels)
        self.project_value = nn.Linear(channels, channels)
        self.project_output = nn.Linear(channels, channels)

    def forward(
        self,
        query_BLC: Tensor,
        source_BSC: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        cache: KeysAndValues | None = None,
    ) -> Tensor:
        """Queries (B, L, C) on keys and values from (B, S, C) → (B, L, C).

        mask: bool, broadcastable to (B, H, L, S), True = may be attended. cache: what was read before; the queries
        and the source follow it.
        """
        first = 0 if cache is None else cache.length
        query_BHLD = self._heads(self.project_query(query_BLC))
        key_BHSD, value_BHSD = (
            self._heads(self.project_key(source_BSC)),
            self._heads(self.project_value(source_BSC)),
        )
        if self.rotary:
            query_BHLD, key_BHSD = rotated(query_BHLD, first=first), rotated(key_BHSD, first=first)
        if cache is not None:
            key_BHSD, value_BHSD = cache.extended(key_BHSD, value_BHSD)
        attended_BHLD = attend(
            query_BHLD, key_BHSD, value_BHSD, score=self.score, mask=mask, causal=causal, site=self.site
        )
        output: Tensor = self.project_output(attended_BHLD.transpose(-3, -2).flatten(-2))
        return output

    def _heads(self, flat: Tensor) -> Tensor:
        split: Tensor = flat.unflatten(-1, (self.site.num_heads, -1)).transpose(-3, -2)
        return split


class Block(nn.Module):
    """Self-attention, attention on a source where there is one, and a feed-forward network.

    Each is normalised before and added to what came in (pre-norm, Xiong et al. 2020).
    """

    def __init__(self, config: LanguageModelConfig, stack: str, number: int, *, source: bool = False) -> None:
        """stack: `encoder` or `decoder`; source: whether the block also attends on a source."""
        super().__init__()
        channels = config.channels
        self.causal = stack == "decoder"
        own = SOURCE_TOKENS if stack == "encoder" and config.shape is Shape.ENCODER_DECODER else TOKENS
        self.normalise_self = nn.LayerNorm(channels)
        self.self_attention = Attention(
            config,
            _site(config, f"language.{stack}.{number}", own, own),
            rotary=config.positions is PositionEncoding.ROTARY,
        )
        self.source_attention = (
            Attention(config, _site(config, f"language.source.{number}", TOKENS, SOURCE_TOKENS), rotary=False)
            if source
            else None
        )
        self.normalise_source = nn.LayerNorm(channels) if source else None
        self.normalise_hidden = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, config.hidden_channels)
        self.narrow = nn.Linear(config.hidden_channels, channels)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        tokens_BLC: Tensor,
        mask: Tensor | None,
        source_BSC: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: KeysAndValues | None = None,
    ) -> Tensor:
        """Tokens (B, L, C) → (B, L, C). mask, source_mask: bool (B, 1, 1, L) and (B, 1, 1, S)."""
        normal = self.normalise_self(tokens_BLC)
        attended = self.self_attention(normal, normal, mask=mask, causal=self.causal, cache=cache)
        tokens_BLC = tokens_BLC + self.dropout(attended)
        if self.source_attention is not None and self.normalise_source is not None:
            assert source_BSC is not None
            attended = self.source_attention(self.normalise_source(tokens_BLC), source_BSC, mask=source_mask)
            tokens_BLC = tokens_BLC + self.dropout(attended)
        hidden = F.gelu(self.widen(self.normalise_hidden(tokens_BLC)))
        added_BLC: Tensor = self.dropout(self.narrow(hidden))
        return tokens_BLC + added_BLC


class LanguageModel(nn.Module):
    """Tokens in, logits of tokens out; the output layer shares its matrix with the embeddings."""

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary(config.alphabet, config.kmer)
        both = config.shape is Shape.ENCODER_DECODER
        self.num_tokens = len(self.vocabulary.tokens) + (config.sentinels if both else 0)
        self.embed = nn.Embedding(self.num_tokens, config.channels)
        nn.init.normal_(self.embed.weight, std=FIRST_SPREAD)
        self.add_positions = AddedPositions(config.positions, config.channels, config.context)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = (
            nn.ModuleList(Block(config, "encoder", number) for number in range(config.layers))
            if config.shape is not Shape.DECODER
            else None
        )
        self.normalise_encoded = nn.LayerNorm(config.channels) if both else None
        self.decoder = (
            nn.ModuleList(Block(config, "decoder", number, source=both) for number in range(config.layers))
            if config.shape is not Shape.ENCODER
            else None
        )
        self.normalise = nn.LayerNorm(config.channels)
        self.bias_V = nn.Parameter(torch.zeros(self.num_tokens))

    def forward(self, tokens_BL: Tensor, source_BS: Tensor | None = None) -> Tensor:
        """Logits (B, L, V) of tokens (B, L): of the masked ones in an encoder, of the next ones in a decoder.

        source_BS: what the encoder of an encoder-decoder reads.
        """
        return self.logits(self.hidden(tokens_BL, source_BS))

    def logits(self, hidden_BLC: Tensor) -> Tensor:
        """Logits (..., V) of normalised channels (..., C)."""
        return F.linear(hidden_BLC, self.embed.weight, self.bias_V)

    def hidden(
        self, tokens_BL: Tensor, source_BS: Tensor | None = None, cache: Cache | None = None
    ) -> Tensor:
        """Channels (B, L, C) behind the last block, normalised. cache: tokens follow those that it holds."""
        if self.decoder is None:
            assert self.encoder is not None
            return self._normalised(self._through(self.encoder, tokens_BL))
        source_BSC = source_mask = None
        if self.encoder is not None:
            assert source_BS is not None
            source_BSC, source_mask = self.encode(source_BS), _mask(source_BS)
        return self._normalised(self._through(self.decoder, tokens_BL, source_BSC, source_mask, cache))

    def encode(self, source_BS: Tensor) -> Tensor:
        """Channels (B, S, C) of the source of an encoder-decoder."""
        assert self.encoder is not None
        assert self.normalise_encoded is not None
        encoded: Tensor = self.normalise_encoded(self._through(self.encoder, source_BS))
        return encoded

    def _normalised(self, tokens_BLC: Tensor) -> Tensor:
        normal: Tensor = self.normalise(tokens_BLC)
        return normal

    def _through(
        self,
        blocks: nn.ModuleList,
        tokens_BL: Tensor,
        source_BSC: Tensor | None = None,
        source_mask: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        first = 0 if cache is None else cache.length
        tokens_BLC: Tensor = self.dropout(self.add_positions(self.embed(tokens_BL), first=first))
        # Behind the last token of a sequence a decoder's padding is seen by padding alone.
        mask = None if blocks is self.decoder else _mask(tokens_BL)
        for number, block in enumerate(blocks):
            held = None if cache is None else cache.block(number)
            tokens_BLC = block(tokens_BLC, mask, source_BSC, source_mask, held)
        return tokens_BLC


def attention_sites(model: LanguageModel) -> dict[str, AttentionSite]:
    """All sites by name, in the order in which a pass comes to them."""
    return {module.site.name: module.site for module in model.modules() if isinstance(module, Attention)}


def _site(config: LanguageModelConfig, name: str, queries: str, keys: str) -> AttentionSite:
    return AttentionSite(
        name=name,
        axes=(
            Axis("sample"),
            Axis("head", size=config.num_heads),
            Axis("query", "token", lengths=queries),
            Axis("key", "token" if keys == queries else "source_token", lengths=keys),
        ),
        heads=tuple(range(config.num_heads)),
    )


def _mask(tokens_BL: Tensor) -> Tensor | None:
    """Which tokens may be attended, (B, 1, 1, L); None for all."""
    known_BL = tokens_BL != PAD
    return None if bool(known_BL.all()) else known_BL[:, None, None, :]
