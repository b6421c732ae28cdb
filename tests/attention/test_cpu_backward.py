"""Gradients of attention in cache-sized pieces on the CPU against autograd in float64."""

import pytest
import torch

from bioattn.attention.cpu import backward, tiles
from bioattn.attention.cpu.backward import attend_and_learn_on_cpu
from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore

BATCH, HEADS, QUERIES, KEYS, CHANNELS = 3, 4, 40, 50, 8


@pytest.fixture(autouse=True)
def _small_is_enough(monkeypatch):
    monkeypatch.setattr(backward, "MIN_LEARNING_MULTIPLICATIONS", 1)


def inputs(with_mask, with_bias):
    random = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(BATCH, n, HEADS, CHANNELS, generator=random).transpose(1, 2).requires_grad_()
        for n in (QUERIES, KEYS, KEYS)
    )
    mask = torch.rand(BATCH, 1, 1, KEYS, generator=random) < 0.6 if with_mask else None
    if mask is not None:
        mask[1] = False
    bias = None
    if with_bias:
        # A transposed view, as the ending node's bias is.
        bias = torch.randn(HEADS, KEYS, QUERIES, generator=random).transpose(1, 2).requires_grad_()
    return [query, key, value, bias], mask


def written_down(leaves, mask, gradient):
    """A row without keys: the weights of equal logits, with the gradient that softmax has there."""
    query, key, value, bias = (None if t is None else t.detach().double().requires_grad_() for t in leaves)
    logits = query @ key.mT / CHANNELS**0.5
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        level = logits - logits.detach()
        logits = torch.where(mask.any(-1, keepdim=True), logits.masked_fill(~mask, -1e30), level)
    attended = torch.softmax(logits, -1) @ value
    attended.backward(gradient.double())
    return attended.detach(), [None if t is None else t.grad for t in (query, key, value, bias)]


@pytest.mark.parametrize("piece_bytes", [1, 4 * KEYS * 7, 4 * KEYS * QUERIES * 3, 1 << 20])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_equals_autograd(with_mask, with_bias, piece_bytes, monkeypatch):
    monkeypatch.setattr(tiles, "CACHE_BYTES", piece_bytes)
    leaves, mask = inputs(with_mask, with_bias)
    gradient = torch.randn(BATCH, HEADS, QUERIES, CHANNELS, generator=torch.Generator().manual_seed(1))
    query, key, value, bias = leaves
    attended = attend_and_learn_on_cpu(query, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias)
    attended.backward(gradient)
    expected, gradients = written_down(leaves, mask, gradient)
    torch.testing.assert_close(attended.detach().double(), expected, atol=2e-6, rtol=1e-5)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        if leaf is not None:
            torch.testing.assert_close(leaf.grad.double(), gradient, atol=1e-5, rtol=1e-4)


def test_a_bias_of_one_head_and_query_gets_the_sum():
    leaves, mask = inputs(True, False)
    query, key, value, _ = leaves
    bias = torch.randn(1, 1, KEYS, requires_grad=True)
    gradient = torch.randn(BATCH, HEADS, QUERIES, CHANNELS)
    attend_and_learn_on_cpu(query, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias).backward(gradient)
    _, gradients = written_down([query, key, value, bias], mask, gradient)
    torch.testing.assert_close(bias.grad.double(), gradients[3], atol=1e-4, rtol=1e-4)


def test_huge_logits_are_left_to_autograd():
    (query, key, value, bias), mask = inputs(True, True)
    attended = attend(query * 1e3, key, value, score=DotScore(), mask=mask, bias=bias)
    attended.sum().backward()
    assert attended.isfinite().all()
    assert bias.grad.isfinite().all()


def test_the_operator_goes_this_way_only_where_the_fused_kernel_cannot(monkeypatch):
    taken = []

    def watch(*arguments, **settings):
        taken.append(settings["bias"] is not None)
        return attend_and_learn_on_cpu(*arguments, **settings)

    monkeypatch.setattr("bioattn.attention.operator.attend_and_learn_on_cpu", watch)
    (query, key, value, bias), mask = inputs(True, True)
    attend(query, key, value, score=DotScore(), bias=bias)
    attend(query, key, value, score=DotScore(), mask=mask)
    attend(query, key, value, score=DotScore(), bias=bias.detach())
    attend(query, key, value, score=DotScore())
    with torch.no_grad():
        attend(query, key, value, score=DotScore(), bias=bias)
    assert taken == [True, False]
