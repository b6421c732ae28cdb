"""Parts of promoter networks: dropout that does not depend on how a batch is split, and the best match of filters.

A process or pass that computes a part of a batch draws what the part would get from a draw for the whole batch.

Convolution kernels are slow with four input channels, and pooling with indices reads every match a second time. In
`best_match` a few promoters at a time are laid out so that one matrix product gives all matches with the filters
innermost, where the maximum is a vector instruction; matches never leave the cache. On a CPU a training step of
the stem takes less than half the time of `conv1d` and `max_pool1d`.

Shape suffixes: B promoters, L bases, K bases of a filter, P bins, S bases of a bin, F filters, C channels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_PART: ContextVar[tuple[slice, int] | None] = ContextVar("batch_part", default=None)


@contextmanager
def part_of_batch(rows: slice, size: int) -> Iterator[None]:
    """Inside the `with`, tensors are the `rows` (0-based, half-open) of a batch of `size` promoters."""
    token = _PART.set(None if rows == slice(0, size) else (rows, size))
    try:
        yield
    finally:
        _PART.reset(token)


def uniform_like(values_B: Tensor) -> Tensor:
    """Uniform draws from [0, 1) in the shape, type and device of values (B, …), from torch's random state."""
    part = _PART.get()
    if part is None:
        return torch.rand_like(values_B)
    rows, size = part
    return torch.rand((size, *values_B.shape[1:]), dtype=values_B.dtype, device=values_B.device)[rows]


def drop_channels(features_BXC: Tensor, share: float) -> Tensor:
    """Features without a random `share` of the channels, by promoter: the others are scaled up.

    The same channels at all bins or treatments, so that fifty treatments cost little more than one.
    """
    if not share:
        return features_BXC
    kept_B1C = uniform_like(features_BXC[:, :1]) >= share
    return features_BXC * (kept_B1C / (1 - share))


class PromoterDropout(nn.Dropout):
    """Dropout of values (B, …); a part of a batch gets its own part of the draws for the whole batch."""

    def forward(self, values_B: Tensor) -> Tensor:
        """Values (B, …) with dropout in training, unchanged in evaluation."""
        if _PART.get() is None or not self.training:
            return super().forward(values_B)
        return values_B * (uniform_like(values_B) >= self.p) / (1 - self.p)


PROMOTERS_AT_ONCE = 8
"""Promoters whose matches are in memory together on a CPU: 8 of 1 kb with 128 filters take 4 MB."""


def best_match(bases_BL4: Tensor, filters_F4K: Tensor, pool: int, codes_BL: Tensor | None = None) -> Tensor:
    """The largest match of each filter in each bin, (B, P, F).

    bases_BL4: one-hot (B, L, 4), L a multiple of `pool`. filters_F4K: (F, 4, K), K odd; a match is centred on its
    base, and bases beyond the ends add 0. Differentiable in the filters and in the bases; equally good matches of
    a bin share the gradient, as in `torch.amax`. codes_BL: 0..3 = A C G T, 4 = N, what the bases stand for; with
    them a CPU needs a fifth of the time.
    """
    best_BPF: Tensor = _BestMatch.apply(bases_BL4, filters_F4K, pool, codes_BL)  # type: ignore[no-untyped-call]
    return best_BPF


class _BestMatch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, bases_BL4: Tensor, filters_F4K: Tensor, pool: int, codes_BL: Tensor | None
    ) -> Tensor:
        wants_gradient = filters_F4K.requires_grad or bases_BL4.requires_grad
        best, is_best = [], []
        if codes_BL is None or codes_BL.device.type != "cpu":
            matches = _matches(bases_BL4, filters_F4K)
        else:
            matches = _matches_of_words(codes_BL, filters_F4K)
        for matches_BLF in matches:
            matches_BPSF = matches_BLF.unflatten(1, (-1, pool))
            best_BPF = matches_BPSF.amax(2)
            best.append(best_BPF)
            if wants_gradient:
                # As 0 and 1, which take a third of the time of bool.
                is_best.append(matches_BPSF.eq_(best_BPF.unsqueeze(2)))
        ctx.save_for_backward(bases_BL4, filters_F4K, *is_best)
        ctx.kernel = filters_F4K.shape[-1]
        return torch.cat(best)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BPF: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        bases_BL4, filters_F4K, *is_best = ctx.saved_tensors
        of_bases, of_filters = ctx.needs_input_grad[:2]
        filters = gradient_BPF.shape[-1]
        filters_KF = _flat(filters_F4K)
        gradient_KF = torch.zeros_like(filters_KF) if of_filters else None
        gradient_BL4 = []
        first = 0
        for (windows_NK, count), is_best_BPSF in zip(_windows(bases_BL4, ctx.kernel), is_best, strict=True):
            part_BPF = gradient_BPF[first : first + count].to(filters_KF.dtype) / is_best_BPSF.sum(2)
            spread_NF = (is_best_BPSF * part_BPF.unsqueeze(2)).view(-1, filters)
            if gradient_KF is not None:
                gradient_KF += windows_NK.T.to(spread_NF.dtype) @ spread_NF
            if of_bases:
                gradient_BL4.append(_unwindowed(spread_NF @ filters_KF.T, count, ctx.kernel))
            first += count
        return (
            torch.cat(gradient_BL4).to(bases_BL4.dtype) if of_bases else None,
            None if gradient_KF is None else gradient_KF.view(ctx.kernel, 4, filters).permute(2, 1, 0),
            None,
            None,
        )


def _matches(bases_BL4: Tensor, filters_F4K: Tensor) -> Iterator[Tensor]:
    """Yields, some promoters at a time, the match of every filter at every base, (promoters, L, F)."""
    filters_KF = _flat(filters_F4K)
    for windows_NK, count in _windows(bases_BL4, filters_F4K.shape[-1]):
        with torch.autocast(bases_BL4.device.type, enabled=False):
            matches_NF = windows_NK.to(filters_KF.dtype) @ filters_KF
        yield matches_NF.unflatten(0, (count, -1))


def _matches_of_words(codes_BL: Tensor, filters_F4K: Tensor) -> Iterator[Tensor]:
    """The same from codes, on a CPU: a match is the sum of what each word of three letters in it adds, which is
    looked up in a table."""
    kernel = filters_F4K.shape[-1]
    words = -(-kernel // 3)
    beyond = 3 * words - kernel
    # (word, letter of the word, A C G T N, F): N and letters beyond the filter add 0.
    letters = torch.nn.functional.pad(_flat(filters_F4K).unflatten(0, (kernel, 4)), (0, 0, 0, 1, 0, beyond))
    first, second, third = letters.unflatten(0, (words, 3)).unbind(1)
    table = (first[:, :, None, None] + second[:, None, :, None] + third[:, None, None]).flatten(0, 3)
    offset = 125 * torch.arange(words, dtype=torch.int32)
    for part_BL in codes_BL.split(PROMOTERS_AT_ONCE):
        padded = torch.nn.functional.pad(part_BL.int(), (kernel // 2, kernel // 2 + beyond), value=4)
        word_BL = 25 * padded[:, :-2] + 5 * padded[:, 1:-1] + padded[:, 2:]
        places = word_BL.unfold(1, 3 * words - 2, 1)[..., ::3] + offset
        matches_NF = torch.nn.functional.embedding_bag(places.flatten(0, 1), table, mode="sum")
        yield matches_NF.unflatten(0, part_BL.shape)


def _flat(filters_F4K: Tensor) -> Tensor:
    """(F, 4, K) → (K·4, F), the order in which the bases of a window lie in memory."""
    filters_KF = filters_F4K.permute(2, 1, 0).reshape(-1, filters_F4K.shape[0])
    return filters_KF if filters_KF.dtype == torch.float64 else filters_KF.float()


def _windows(bases_BL4: Tensor, kernel: int) -> Iterator[tuple[Tensor, int]]:
    """Yields, some promoters at a time, the bases around every position (promoters·L, K·4) and their number."""
    at_once = PROMOTERS_AT_ONCE if bases_BL4.device.type == "cpu" else len(bases_BL4)
    half = kernel // 2
    for part_BL4 in bases_BL4.split(max(1, at_once)):
        padded_BL4 = torch.nn.functional.pad(part_BL4, (0, 0, half, half)).contiguous()
        # Windows overlap in memory: each starts one base (four numbers) after the one before.
        count, length = part_BL4.shape[:2]
        windows = padded_BL4.as_strided((count, length, kernel * 4), (padded_BL4.stride(0), 4, 1))
        yield windows.reshape(count * length, kernel * 4), count


def _unwindowed(windows_NK: Tensor, count: int, kernel: int) -> Tensor:
    """Sums over windows for each base, (promoters, L, 4): the transpose of `_windows`."""
    windows = windows_NK.view(count, -1, kernel, 4)
    length = windows.shape[1]
    padded = windows.new_zeros(count, length + kernel - 1, 4)
    for tap in range(kernel):
        padded[:, tap : tap + length] += windows[:, :, tap]
    return padded[:, kernel // 2 : kernel // 2 + length]
