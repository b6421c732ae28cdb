"""Residual updates some rows at a time: `state += update(state)` without a whole-sized intermediate.

Shape suffixes: N rows of a state (its first axis); the other axes are the layer's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

TileUpdate = Callable[[Tensor, slice], Tensor]
"""Rows of the state and where they lie → what is to be added to them."""

ACCELERATOR_FACTOR = 64
"""Larger tiles keep a GPU busy: 128 MB of a float32 state instead of 2."""

_LARGEST: ContextVar[int | None] = ContextVar("largest_tile", default=None)


@contextmanager
def tiles_of_at_most(rows: int | None) -> Iterator[None]:
    """Inside the `with`, layers take at most `rows` rows or residues at a time; None = the fastest sizes.

    Transitions, which treat cells one by one, keep their size. Fewer rows need less memory and more time; results
    are equal up to the order of sums.
    """
    token = _LARGEST.set(rows)
    try:
        yield
    finally:
        _LARGEST.reset(token)


def tiles(total: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` rows that cover `total` rows in order."""
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def rows_per_tile(state: Tensor, elements: int, least: int = 1) -> int:
    """Rows of the first axis that have about `elements` numbers together, `least` or more of them, but no more
    than `tiles_of_at_most` lets.

    `elements` suits the caches of a CPU; other devices take ACCELERATOR_FACTOR times as many.
    """
    if state.device.type != "cpu":
        elements *= ACCELERATOR_FACTOR
    rows = max(least, elements // max(1, state[:1].numel()))
    return rows if state.dim() < 3 else min(rows, _LARGEST.get() or rows)


def add_update(state: Tensor, update: TileUpdate, size: int) -> Tensor:
    """state + update(state).

    Without autograd `size` rows at a time and in place: the result is `state` itself. With autograd at once, and
    `state` stays as it was.
    """
    if torch.is_grad_enabled():
        return state + update(state, slice(0, state.shape[0]))
    for rows in tiles(state.shape[0], min(size, _LARGEST.get() or size)):
        part = state[rows]
        part += update(part, rows)
    return state
