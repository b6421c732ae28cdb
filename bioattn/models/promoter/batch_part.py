"""Random draws per promoter when only a part of a batch is computed here: what the part gets of a draw for all.

So dropout does not depend on how a batch is split over passes and processes that start from the same random state.

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
    """What the body computes are `rows` (0-based, half-open) of a batch of `size` promoters."""
    token = _PART.set(None if rows == slice(0, size) else _Part(rows, size))
    try:
        yield
    finally:
        _PART.reset(token)


def uniform_like(values_B: Tensor) -> Tensor:
    """Uniform draws from [0, 1) in the shape and type of values (B, …), device and random state of torch."""
    part = _PART.get()
    if part is None:
        return torch.rand_like(values_B)
    shape = (part.size, *values_B.shape[1:])
    return torch.rand(shape, dtype=values_B.dtype, device=values_B.device)[part.rows]


class PromoterDropout(nn.Dropout):
    """Dropout of values (B, …) whose draws in a part of a batch are those of the part alone."""

    def forward(self, values_B: Tensor) -> Tensor:
        """Same shape."""
        if _PART.get() is None or not self.training:
            return super().forward(values_B)
        return values_B * (uniform_like(values_B) >= self.p) / (1 - self.p)
