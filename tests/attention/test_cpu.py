"""Attention and products on the CPU, forwards and backwards, against float64 of NumPy and autograd."""

import numpy as np
import pytest
import torch

from bioattn.attention.cpu import backward, tiles
from bioattn.attention.cpu import matmul as products
from bioattn.attention.cpu.backward import attend_and_learn_on_cpu
from bioattn.attention.cpu.matmul import linear, matmul, suits_onednn
from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore

SIZE = (130, 70, 120)  # rows, inputs, outputs: just above MIN_MULTIPLICATIONS


def operands(seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows, inputs, outputs = SIZE
    x = torch.randn(rows, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator)
    return x, weight, torch.randn(outputs, generator=generator)


@pytest.fixture(params=["onednn", "torch", "missing"])
def way(request, monkeypatch):
    """Through oneDNN, switched off by its public switch, and where PyTorch lacks the operator."""
    if request.param == "missing":
        monkeypatch.setattr(products, "_onednn_agrees", lambda: False)
    elif request.param == "onednn" and not products._onednn_agrees():
        pytest.skip("this PyTorch has no oneDNN operator")
    with torch.backends.mkldnn.flags(enabled=request.param == "onednn"):
        yield request.param


LAYOUTS = {
    "dense": lambda t: t,
    "transposed": lambda t: t.T.contiguous().T,
    "rows of a wider matrix": lambda t: torch.cat([t, t], dim=1)[:, : t.shape[1]],
}


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("weight_layout", LAYOUTS)
@pytest.mark.parametrize("x_layout", LAYOUTS)
def test_linear_and_matmul(way, x_layout, weight_layout):
    x, weight, bias = operands()
    expected = x.double().numpy() @ weight.double().numpy().T
    x, weight = LAYOUTS[x_layout](x), LAYOUTS[weight_layout](weight)
    assert suits_onednn(x, weight) == (way == "onednn")
    with torch.no_grad():
        np.testing.assert_allclose(linear(x, weight).numpy(), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            linear(x.view(2, -1, 70) if x_layout == "dense" else x, weight, bias).flatten(0, -2).numpy(),
            expected + bias.double().numpy(),
            rtol=1e-4,
            atol=1e-4,
        )
        plus = torch.randn(SIZE[0], SIZE[2])
        np.testing.assert_allclose(
            matmul(x, weight.T, plus).numpy(), expected + plus.double().numpy(), rtol=1e-4, atol=1e-4
        )
        batch = matmul(x.expand(3, -1, -1), weight.T.expand(3, -1, -1), plus.expand(3, -1, -1))
        np.testing.assert_allclose(batch[1].numpy(), expected + plus.double().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("wider", [False, True])
def test_gradients(way, wider, transposed):
    x, weight, bias = operands()
    if not wider:
        x, weight, bias = torch.randn(130, 120), weight.T.contiguous(), bias[:70]
    if transposed:
        weight = weight.T.contiguous().T
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    slope = torch.randn(2, 65, len(weight), generator=torch.Generator().manual_seed(5))
    linear(leaves[0].view(2, 65, -1), *leaves[1:]).backward(slope)
    x, weight = x.double().numpy(), weight.double().numpy()
    slope = slope.double().numpy().reshape(130, -1)
    for leaf, expected in zip(leaves, (slope @ weight, slope.T @ x, slope.sum(0)), strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_are_computed_only_where_wanted():
    x, weight, bias = operands()
    linear(x.requires_grad_(), weight, bias).sum().backward()
    assert weight.grad is None
    assert bias.grad is None
    np.testing.assert_allclose(x.grad[0].numpy(), weight.sum(0).numpy(), rtol=1e-4, atol=1e-4)


def test_a_trial_that_disagrees_means_torch(monkeypatch):
    monkeypatch.setattr(products, "_onednn_linear", lambda x, w, b=None, plus=None: x @ w.T)
    products._onednn_agrees.cache_clear()
    assert not products._onednn_agrees()
    monkeypatch.undo()
    products._onednn_agrees.cache_clear()


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
