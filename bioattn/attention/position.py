"""Positions in self-attention: encodings added to its inputs, the rotation of its queries and keys, and biases of
distances.

Everything takes the number of its first position, so that a later part of a sequence (behind cached keys, or a
window of a chromosome) is encoded as within the whole.

Shape suffixes: L positions, C channels, P pairs of channels, H heads, Q queries, K keys, N buckets of distances;
leading axes are `...`.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bioattn.choices import PositionEncoding

LONGEST_WAVE = 10_000.0
"""Wavelengths run geometrically from 2π positions to this times 2π (both sources)."""
FIRST_SPREAD = 0.02
"""Standard deviation of a learned encoding before training, small beside inputs of size 1."""


class AddedPositions(nn.Module):
    """Adds an encoding of each position to inputs; `none` and `rotary` add nothing."""

    def __init__(self, encoding: PositionEncoding, channels: int, length: int) -> None:
        """channels: even for `sinusoidal`. length: positions that a learned encoding has vectors for."""
        super().__init__()
        self.encoding = encoding
        self.table_LC = (
            nn.Parameter(torch.randn(length, channels) * FIRST_SPREAD)
            if encoding is PositionEncoding.LEARNED
            else None
        )

    def forward(self, inputs: Tensor, *, first: int = 0) -> Tensor:
        """Inputs (..., L, C) at the positions from `first` on → the same shape."""
        length, channels = inputs.shape[-2:]
        if self.table_LC is not None:
            return inputs + self.table_LC[first : first + length]
        if self.encoding is PositionEncoding.SINUSOIDAL:
            angle_LP = angles(first, length, channels, inputs.device)
            return inputs + torch.stack([angle_LP.sin(), angle_LP.cos()], dim=-1).flatten(-2).to(inputs.dtype)
        return inputs


def rotated(
    vectors: Tensor, *, first: int = 0, frequencies: Sequence[float] = (), place_B: Tensor | None = None
) -> Tensor:
    """Queries or keys (..., L, C) of a head, each pair of neighbouring channels rotated by its position's angle
    (Su et al. 2021, equation 34); C is even.

    The dot product of a rotated query and a rotated key depends on their distance, not on where both lie.
    frequencies: radians per position of each pair; none: those of `angles`. place_B: the position of the only
    vector of each sequence, (B, H, 1, C).
    """
    length, channels = vectors.shape[-2:]
    last = length if place_B is None else int(place_B.max()) + 1
    angle_LP = angles(first, last, channels, vectors.device, frequencies)
    if place_B is not None:
        angle_LP = angle_LP[place_B, None, None]
    # A pair as a complex number: one pass over contiguous memory, four to eight times as fast as by halves.
    exact = vectors if vectors.dtype == torch.float64 else vectors.float()
    turn_LP = torch.complex(angle_LP.cos(), angle_LP.sin())
    turned = torch.view_as_complex(exact.unflatten(-1, (-1, 2))) * turn_LP
    return torch.view_as_real(turned).flatten(-2).to(vectors.dtype)


def angles(
    first: int, length: int, channels: int, device: torch.device, frequencies: Sequence[float] = ()
) -> Tensor:
    """Angles (L, C / 2) in radians of `length` positions from `first` on."""
    position_L = torch.arange(first, first + length, device=device, dtype=torch.float32)
    if frequencies:
        return position_L[:, None] * torch.tensor(frequencies, device=device, dtype=torch.float32)
    wave_P = torch.arange(0, channels, 2, device=device, dtype=torch.float32) / channels
    return position_L[:, None] * LONGEST_WAVE**-wave_P


class RelativePositions(nn.Module):
    """A learned bias of each head for the distance of a key from its query (T5, Raffel et al. 2020).

    Near distances have a bucket each, farther ones share buckets that widen with the logarithm; the last bucket
    holds all from `farthest` on. Half of the buckets are for keys behind the query, unless it sees none (causal).
    """

    def __init__(self, num_heads: int, buckets: int, farthest: int, *, causal: bool) -> None:
        super().__init__()
        self.causal, self.farthest = causal, farthest
        self.bias_NH = nn.Parameter(torch.randn(buckets, num_heads) * FIRST_SPREAD)

    def forward(self, queries: int, keys: int) -> Tensor:
        """Biases (H, Q, K) of logits. The last query and the last key are the same position."""
        device = self.bias_NH.device
        query_Q = torch.arange(keys - queries, keys, device=device)
        return self.bias_NH[self._bucket(torch.arange(keys, device=device) - query_Q[:, None])].permute(
            2, 0, 1
        )

    def _bucket(self, offset_QK: Tensor) -> Tensor:
        buckets = len(self.bias_NH)
        behind_QK = torch.zeros_like(offset_QK)
        if self.causal:
            distance_QK = (-offset_QK).clamp(min=0)
        else:
            buckets //= 2
            behind_QK, distance_QK = (offset_QK > 0) * buckets, offset_QK.abs()
        single = buckets // 2
        share_QK = torch.log(distance_QK.float() / single) / math.log(self.farthest / single)
        # Rounded towards 0 as T5 does it; the logarithm of 0 belongs to a distance that is not read here.
        shared_QK = single + (share_QK.clamp(min=0) * (buckets - single)).long()
        near_QK = distance_QK < single
        return behind_QK + torch.where(near_QK, distance_QK, shared_QK.clamp(max=buckets - 1))


def sloping_bias(num_heads: int, length: int, device: torch.device) -> Tensor:
    """Biases (H, L, L) of logits that fall with the distance of a key from its query (ALiBi, Press et al. 2022).

    The slopes of a power of two of heads run geometrically down to 2^-8; further heads have every second slope of
    twice as many.
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    slopes += [2 ** (-4 * head / power) for head in range(1, 2 * (num_heads - power), 2)]
    position_L = torch.arange(length, device=device)
    distance_LL = (position_L[:, None] - position_L).abs()
    return -torch.tensor(slopes, device=device)[:, None, None] * distance_LL
