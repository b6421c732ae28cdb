"""The block of the library against the plain block that the benchmark measures it with, at AlphaFold's widths."""

import numpy as np
import pytest
import torch

from benchmarks.evoformer_block import block_flops, make_block, make_inputs
from benchmarks.evoformer_plain import PlainBlock
from bioattn.attention.capture import capture
from bioattn.models.evoformer import layers

# So many residues that products, attention and tiles take the ways they take at full size.
SIZE = (12, 200)


@pytest.fixture(scope="module")
def plain():
    """The plain block's results and its inputs."""
    inputs = make_inputs(*SIZE)
    with torch.no_grad():
        return inputs, PlainBlock(make_block("float32"))(*inputs)


class Nobody:
    """A sink."""

    def receive(self, site, weights, value_weighted, tile=None):
        pass


@pytest.mark.parametrize("sites", [[], ["*"]], ids=["unheard", "captured"])
def test_float32(plain, sites):
    inputs, expected = plain
    with torch.no_grad(), capture(sites, Nobody()):
        states = make_block("float32")(*(t.clone() for t in inputs))
    for state, other in zip(states, expected, strict=True):
        # Pairs that no row covers hold bias / 1e-3 and set the scale of what is rounded.
        np.testing.assert_allclose(
            state.numpy(), other.numpy(), rtol=1e-4, atol=1e-5 * float(other.abs().max())
        )


def test_bfloat16_within_a_hundredth(plain):
    inputs, expected = plain
    with torch.no_grad():
        states = make_block("bfloat16")(*(t.clone() for t in inputs))
    for state, other in zip(states, expected, strict=True):
        assert state.dtype == torch.float32
        assert 1e-5 < (state - other).norm() / other.norm() <= 1e-2


@pytest.mark.parametrize("recomputed", [False, True])
def test_gradients(recomputed, monkeypatch):
    monkeypatch.setattr(layers, "MIN_RECOMPUTED_ELEMENTS", 0 if recomputed else 1 << 40)
    msa, pair, *masks = make_inputs(8, 96)
    slopes = torch.randn(8, 96, 256), torch.randn(96, 96, 128)
    gradients = []
    block = make_block("float32")
    for model in (PlainBlock(block), block):
        leaves = msa.clone().requires_grad_(), pair.clone().requires_grad_()
        states = model(*leaves, *masks)
        sum((state * slope).sum() for state, slope in zip(states, slopes, strict=True)).backward()
        gradients.append([leaf.grad for leaf in leaves])
    for one, other in zip(*gradients, strict=True):
        # One hidden activation that rounding puts on the other side of 0 moves the whole by 1e-3.
        assert (one - other).norm() <= 5e-3 * one.norm()


def test_counted_flops():
    for size, gigaflop in {(128, 128): 71.5, (128, 256): 216.0, (512, 256): 593.0}.items():
        assert block_flops(*size) == pytest.approx(gigaflop * 1e9, rel=2e-3)
