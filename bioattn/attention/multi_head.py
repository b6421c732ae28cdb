"""Multi-head attention with learned projections over any scoring function, and a layer of a transformer.

Shape suffixes: Q queries, K keys, L positions, H heads, D channels of a head, C model channels; leading axes are
`...`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.operator import attend
from bioattn.attention.position import rotated
from bioattn.attention.score import make_score
from bioattn.attention.site import AttentionSite, Tile
from bioattn.choices import AttentionScore, PositionEncoding


@dataclass(slots=True)
class KeysAndValues:
    """What an attention layer has read so far of a sequence that is made step by step, (..., H, N, D) each."""

    keys: Tensor | None = None
    values: Tensor | None = None
    _room: list[Tensor] = field(default_factory=list)
    """What keys and values are the beginning of."""
    _joined: tuple[Tensor, Tensor] | None = None
    """Weights and biases of the layers that make queries, keys and values."""

    @property
    def length(self) -> int:
        """Positions read."""
        return 0 if self.keys is None else int(self.keys.shape[-2])

    def extended(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add further positions; returns all."""
        if self.keys is not None and self.values is not None:
            first, length = self.length, self.length + keys.shape[-2]
            held = self.keys, self.values
            if keys.requires_grad:
                keys, values = (torch.cat(each, dim=-2) for each in zip(held, (keys, values), strict=True))
            else:
                if not self._room or self._room[0].shape[-2] < length:
                    # Twice as much each time, so that most steps copy nothing that was there.
                    self._room = [
                        each.new_empty(*each.shape[:-2], 2 * length, each.shape[-1]) for each in held
                    ]
                    for room, each in zip(self._room, held, strict=True):
                        room[..., :first, :] = each
                for room, new in zip(self._room, (keys, values), strict=True):
                    room[..., first:length, :] = new
                keys, values = (room[..., :length, :] for room in self._room)
        self.keys, self.values = keys, values
        return keys, values

    def projected(self, layers: Sequence[nn.Linear], inputs: Tensor) -> list[Tensor]:
        """What each of the layers of self-attention makes of inputs, in one product; their weights do not change
        while this is kept."""
        if self._joined is None:
            first = layers[0].weight
            biases: list[Tensor] = [
                first.new_zeros(len(each.weight)) if each.bias is None else each.bias for each in layers
            ]
            weights: list[Tensor] = [each.weight.T for each in layers]
            self._joined = torch.cat(weights, dim=1).T, torch.cat(biases)
        return list(F.linear(inputs, *self._joined).chunk(len(layers), dim=-1))


class MultiHeadAttention(nn.Module):
    """Queries, keys and values projected to heads, attended, and projected back (Vaswani et al. 2017).

    Keys and values come from different inputs, so that keys can stay narrow while values mix a wider context.
    """

    def __init__(
        self,
        *,
        query_channels: int,
        output_channels: int | None,
        num_heads: int,
        head_channels: int,
        site: AttentionSite,
        key_channels: int | None = None,
        value_channels: int | None = None,
        score: AttentionScore = AttentionScore.DOT,
        uniform: bool = False,
        first_gain: float = 1.0,
        rotary: bool = False,
        frequencies: Sequence[float] = (),
        key_bias: bool = False,
        normalised: bool = False,
    ) -> None:
        """key_channels, value_channels: None for as many as those of queries.

        output_channels: None for values that are single numbers, one per head and key: the heads' sums are
        returned as they are.

        `uniform` gives all keys equal weight: the control that attention must beat.

        `first_gain` multiplies the first query and key weights. With default weights attention over many keys
        starts out uniform, and one of 50 keys changes the mean by a fiftieth; a gain of 1.7 starts as a soft
        maximum.

        `rotary` rotates queries and keys by their positions (`bioattn.attention.position`), but not the null key;
        `frequencies` are their radians per position, where they are not the usual ones.

        `key_bias` adds a bias to keys; without `rotary` all logits of a query get the same from it.

        `normalised` puts a layer norm over queries and one over keys, over the channels of all heads (ESM C).
        """
        super().__init__()
        self.rotary = rotary
        self.frequencies = frequencies
        self.uniform = uniform
        self.num_heads = num_heads
        self.site = site
        hidden = num_heads * head_channels
        key_channels, value_channels = key_channels or query_channels, value_channels or query_channels
        self.project_query = nn.Linear(query_channels, hidden)
        self.project_key = nn.Linear(key_channels, hidden, bias=key_bias)
        self.project_value = nn.Linear(value_channels, num_heads if output_channels is None else hidden)
        self.project_output = nn.Identity() if output_channels is None else nn.Linear(hidden, output_channels)
        self.normalise_query = nn.LayerNorm(hidden) if normalised else nn.Identity()
        self.normalise_key = nn.LayerNorm(hidden) if normalised else nn.Identity()
        with torch.no_grad():
            self.project_query.weight *= first_gain
            self.project_key.weight *= first_gain
        # Zero queries make only the dot product ignore the keys.
        self.score = make_score(AttentionScore.DOT if uniform else score, num_heads, head_channels)
        self.sink_key_HD = nn.Parameter(torch.zeros(num_heads, head_channels)) if site.null_key else None

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        cache: KeysAndValues | None = None,
        tile: Tile | None = None,
        reader: Tensor | None = None,
        place_B: Tensor | None = None,
    ) -> Tensor:
        """query (..., Q, C), key (..., K, C), value (..., K, C) → (..., Q, C), or (..., Q, H) without an output.

        key, value: None to attend to what `cache` holds, alone. tile: as `attend` has it.

        mask: bool, broadcastable to (..., H, Q, K), True = may be attended. bias: likewise, added to logits.
        reader: (..., Q, C), what of its output each query adds to the prediction, for the contributions of keys.
        causal: as `attend` has it. cache: what was read before; queries, keys and values follow it. place_B: the
        position of the only query of each sequence (B, 1, C).
        """
        first = 0 if cache is None else cache.length
        layers = self.project_query, self.project_key, self.project_value
        flat: Sequence[Tensor] = ()
        if cache is not None and query is key is value and not torch.is_grad_enabled():
            flat = cache.projected(layers, query)
        query_HQD = self._split_heads(self.normalise_query(flat[0] if flat else self.project_query(query)))
        if self.uniform:
            query_HQD = torch.zeros_like(query_HQD)
        if self.rotary:
            query_HQD = rotated(query_HQD, first=first, frequencies=self.frequencies, place_B=place_B)
        if key is None or value is None:
            assert cache is not None
            assert cache.keys is not None
            assert cache.values is not None
            key_HKD, value_HKD = cache.keys, cache.values
        else:
            key_HKD, value_HKD = self.projected(key, value, first=first, flat=flat[1:])
            if cache is not None:
                key_HKD, value_HKD = cache.extended(key_HKD, value_HKD)
        if self.sink_key_HD is not None:
            sink = self.sink_key_HD.unsqueeze(-2).expand(*key_HKD.shape[:-2], 1, -1)
            key_HKD = torch.cat([key_HKD, sink], dim=-2)
            value_HKD = torch.cat([value_HKD, torch.zeros_like(value_HKD[..., :1, :])], dim=-2)
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(*mask.shape[:-1], 1)], dim=-1)
            if bias is not None:
                bias = torch.cat([bias, bias.new_zeros(*bias.shape[:-1], 1)], dim=-1)
        if reader is not None:  # of the heads' sums, and not of what the projection makes of them
            assert isinstance(self.project_output, nn.Linear)
            reader = self._split_heads(reader @ self.project_output.weight)
        attended_HQD = attend(
            query_HQD,
            key_HKD,
            value_HKD,
            score=self.score,
            mask=mask,
            bias=bias,
            causal=causal,
            site=self.site,
            tile=tile,
            reader=reader,
        )
        output: Tensor = self.project_output(attended_HQD.transpose(-3, -2).flatten(-2))
        return output

    def projected(
        self, key: Tensor, value: Tensor, *, first: int = 0, flat: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Tensor]:
        """Keys and values (..., H, K, D) of the heads; first: number of the first key's position; flat: what the
        layers made of both, where that is known."""
        flat_key, flat_value = flat or (self.project_key(key), self.project_value(value))
        key_HKD = self._split_heads(self.normalise_key(flat_key))
        if self.rotary:
            key_HKD = rotated(key_HKD, first=first, frequencies=self.frequencies)
        return key_HKD, self._split_heads(flat_value)

    def _split_heads(self, flat: Tensor) -> Tensor:
        """(..., N, H·D) → (..., H, N, D)."""
        heads: Tensor = flat.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
        return heads


WIDENING = 4
"""Channels of the hidden layer over channels of the model (Vaswani et al. 2017)."""


class TransformerLayer(nn.Module):
    """Each part is normalised before and added to what came in (pre-norm, Xiong et al. 2020).

    With a source site there is a third part between the two: attention on what an encoder made of a source.
    """

    source_attention: MultiHeadAttention

    def __init__(
        self,
        *,
        channels: int,
        head_channels: int,
        site: AttentionSite,
        position: PositionEncoding = PositionEncoding.NONE,
        source_site: AttentionSite | None = None,
        dropout: float = 0.0,
    ) -> None:
        """position: only `rotary` matters here; what is added to the inputs is added before the first layer."""
        super().__init__()
        self.normalise_attention = nn.LayerNorm(channels)
        rotary = position is PositionEncoding.ROTARY
        self.attention = self._attention(channels, head_channels, site, rotary=rotary)
        if source_site is not None:
            self.normalise_source = nn.LayerNorm(channels)
            self.source_attention = self._attention(channels, head_channels, source_site, rotary=False)
        self.normalise_hidden = nn.LayerNorm(channels)
        self.widen = nn.Linear(channels, WIDENING * channels)
        self.narrow = nn.Linear(WIDENING * channels, channels)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def _attention(
        channels: int, head_channels: int, site: AttentionSite, *, rotary: bool
    ) -> MultiHeadAttention:
        return MultiHeadAttention(
            query_channels=channels,
            output_channels=channels,
            num_heads=site.num_heads,
            head_channels=head_channels,
            site=site,
            rotary=rotary,
        )

    def forward(
        self,
        inputs: Tensor,
        *,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        causal: bool = False,
        cache: KeysAndValues | None = None,
        source: Callable[[MultiHeadAttention, Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Positions (..., L, C) → (..., L, C). mask, bias, causal, cache: as `MultiHeadAttention` takes them.

        source: calls the source attention with the queries that it is given.
        """
        normal = self.normalise_attention(inputs)
        attended = self.attention(normal, normal, normal, mask=mask, bias=bias, causal=causal, cache=cache)
        inputs = inputs + self.dropout(attended)
        if source is not None:
            inputs = inputs + self.dropout(source(self.source_attention, self.normalise_source(inputs)))
        hidden = F.gelu(self.widen(self.normalise_hidden(inputs)))
        added: Tensor = self.dropout(self.narrow(hidden))
        return inputs + added
