"""Random draws per promoter when a process or pass computes only a part of a batch.

The draws are those that the part would get from a draw for the whole batch. So dropout does not depend on how a
batch is split over passes and processes that start from the same random state.

Shape suffixes: B promoters (of the part).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor, nn


class _Part(NamedTuple):
    rows: slice
    size: int


_PART: ContextVar[_Part | None] = ContextVar("batch_part", default=None)


@contextmanager
def part_of_batch(rows: slice, size: int) -> Iterator[None]:
    """Inside the `with`, tensors are the `rows` (0-based, half-open) of a batch of `size` promoters."""
    token = _PART.set(None if rows == slice(0, size) else _Part(rows, size))
    try:
        yield
    finally:
        _PART.reset(token)


def uniform_like(values_B: Tensor) -> Tensor:
    """Uniform draws from [0, 1) in the shape, type and device of values (B, …), from torch's random state."""
    part = _PART.get()
    if part is None:
        return torch.rand_like(values_B)
    shape = (part.size, *values_B.shape[1:])
    return torch.rand(shape, dtype=values_B.dtype, device=values_B.device)[part.rows]


def drop_channels(features_BXC: Tensor, share: float) -> Tensor:
    """Features without a random `share` of the channels, by promoter: the others are scaled up.

    The same channels at all bins or treatments, so that fifty treatments cost little more than one.
    """
    kept_B1C = uniform_like(features_BXC[:, :1]) >= share
    return features_BXC * (kept_B1C / (1 - share))


class PromoterDropout(nn.Dropout):
    """Dropout of values (B, …); a part of a batch gets its own part of the draws for the whole batch."""

    def forward(self, values_B: Tensor) -> Tensor:
        """Values (B, …) with dropout in training, unchanged in evaluation."""
        if _PART.get() is None or not self.training:
            return super().forward(values_B)
        return values_B * (uniform_like(values_B) >= self.p) / (1 - self.p)
