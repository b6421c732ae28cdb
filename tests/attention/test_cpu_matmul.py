"""Products by oneDNN against float64 products of NumPy, forwards and backwards."""

import numpy as np
import pytest
import torch

from bioattn.attention.cpu import matmul as products
from bioattn.attention.cpu.matmul import linear, matmul, suits_onednn

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
