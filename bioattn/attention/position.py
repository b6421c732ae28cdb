"""Positions in self-attention: encodings added to its inputs, and the rotation of its queries and keys.

Everything takes the number of its first position, so that a later part of a sequence (behind cached keys, or a
window of a chromosome) is encoded as within the whole.

Shape suffixes: L positions, C channels, P pairs of channels; leading axes are `...`.
"""

import torch
from torch import Tensor, nn

from bioattn.attention.choices import PositionEncoding

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


def rotated(vectors: Tensor, *, first: int = 0) -> Tensor:
    """Queries or keys (..., L, C) of a head, each pair of neighbouring channels rotated by its position's angle
    (Su et al. 2021, equation 34); C is even.

    The dot product of a rotated query and a rotated key depends on their distance, not on where both lie.
    """
    length, channels = vectors.shape[-2:]
    angle_LP = angles(first, length, channels, vectors.device)
    cos_LP, sin_LP = angle_LP.cos().to(vectors.dtype), angle_LP.sin().to(vectors.dtype)
    even, odd = vectors.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack([even * cos_LP - odd * sin_LP, even * sin_LP + odd * cos_LP], dim=-1)
    return turned.flatten(-2)


def angles(first: int, length: int, channels: int, device: torch.device) -> Tensor:
    """Angles (L, C / 2) in radians of `length` positions from `first` on."""
    wave_P = torch.arange(0, channels, 2, device=device, dtype=torch.float32) / channels
    position_L = torch.arange(first, first + length, device=device, dtype=torch.float32)
    return position_L[:, None] * LONGEST_WAVE**-wave_P
