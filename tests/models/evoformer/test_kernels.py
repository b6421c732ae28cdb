"""Kernels of other libraries, on a CPU: Triton's interpreted, and in place of cuEquivariance what it documents."""

import copy
import importlib.util
import logging
import sys
import types
from itertools import product

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from bioattn.attention import kernels
from bioattn.models.evoformer import pair_updates as trials
from bioattn.models.evoformer.layers import use_precision
from bioattn.models.evoformer.pair_updates import TriangleMultiplication
from bioattn.models.evoformer.stacks import EvoformerBlock, compile_blocks
from bioattn.system.device import Compile, Kernels
from tests.making import small_evoformer

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def triangle_multiplicative_update(
    x, direction, mask, norm_in_weight, norm_in_bias, p_in_weight, p_in_bias, g_in_weight, g_in_bias,
    norm_out_weight, norm_out_bias, p_out_weight, p_out_bias, g_out_weight, g_out_bias, eps,
):  # fmt: skip
    """Written from the documentation: AlphaFold 3's Algorithms 12 and 13 with biases."""
    normed = F.layer_norm(x, x.shape[-1:], norm_in_weight, norm_in_bias, eps)
    factors = torch.sigmoid(F.linear(normed, g_in_weight, g_in_bias)) * F.linear(
        normed, p_in_weight, p_in_bias
    )
    first, second = (factors * mask[..., None]).chunk(2, -1)
    formula = "bikd,bjkd->bijd" if direction == "outgoing" else "bkid,bkjd->bijd"
    product = torch.einsum(formula, first, second)
    normed_product = F.layer_norm(product, product.shape[-1:], norm_out_weight, norm_out_bias, eps)
    gate = torch.sigmoid(F.linear(normed, g_out_weight, g_out_bias))
    return gate * F.linear(normed_product, p_out_weight, p_out_bias)


@pytest.fixture
def library(monkeypatch):
    module = types.ModuleType("cuequivariance_torch")
    module.triangle_multiplicative_update = triangle_multiplicative_update
    monkeypatch.setitem(sys.modules, "cuequivariance_torch", module)
    trials._agrees.cache_clear()
    yield module
    trials._agrees.cache_clear()
    kernels.Used.attention = kernels.Used.triangle = False


@torch.no_grad()
@pytest.mark.parametrize("outgoing", [True, False])
def test_the_triangular_update_of_another_library_is_ours(outgoing, library):
    layer = TriangleMultiplication(16, 8, outgoing=outgoing)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    pair, mask = torch.randn(7, 7, 16), (torch.rand(7, 7) < 0.7).float()
    found = layer.by_cuequivariance(pair, mask)
    torch.testing.assert_close(found, layer(pair.clone(), mask), rtol=1e-4, atol=1e-4)


def test_a_kernel_is_used_where_it_agrees(library, monkeypatch, caplog):
    monkeypatch.setattr(trials, "find_spec", lambda name: name if "cuequivariance" in name else None)
    monkeypatch.setattr(trials, "version", lambda _: "1.0")
    monkeypatch.setattr(trials, "_try_triangle", lambda _: real(CPU))
    real = TRY_TRIANGLE
    with caplog.at_level(logging.WARNING, "bioattn"):
        assert trials.use_kernels(Kernels.AUTO, CUDA) == {"cuequivariance_torch": "1.0"}
        assert kernels.Used.triangle
        assert not kernels.Used.attention
        assert not caplog.messages
        assert trials.use_kernels(Kernels.AUTO, CUDA, triangle=False) == {}
        trials._agrees.cache_clear()
        library.triangle_multiplicative_update = lambda x, **_: torch.zeros_like(x)
        assert trials.use_kernels(Kernels.AUTO, CUDA) == {}
        assert not kernels.Used.triangle
        assert "cuequivariance_torch" in caplog.text
        trials._agrees.cache_clear()
        library.triangle_multiplicative_update = None
        assert trials.use_kernels(Kernels.AUTO, CUDA) == {}
    trials._agrees.cache_clear()
    library.triangle_multiplicative_update = triangle_multiplicative_update
    for wanted, device in ((Kernels.TORCH, CUDA), (Kernels.AUTO, CPU)):
        assert trials.use_kernels(wanted, device) == {}
        assert not kernels.Used.triangle


TRY_TRIANGLE = trials._try_triangle


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")
@torch.no_grad()
def test_the_trial_of_attention_finds_it_near():
    assert trials._try_attention(CPU) < 1e-5


@pytest.mark.slow
def test_blocks_of_a_device_give_what_the_cpu_gives(device):
    """Compiled or not, by kernels of other libraries or not; on a CPU, where compiling takes longest, one way."""
    torch.manual_seed(0)
    config = small_evoformer(msa_channels=32, msa_heads=2, pair_channels=32, pair_heads=2)
    block = EvoformerBlock(config, 0)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    msa, pair, msa_mask = torch.randn(6, 20, 32), torch.randn(20, 20, 32), torch.rand(6, 20) < 0.7
    msa_mask[2] = False
    pair_mask = torch.ones(20, 20)
    pair_mask[-3:] = pair_mask[:, -3:] = 0
    cuda = device.type == "cuda"
    ways = product((torch.float32, torch.bfloat16), (False, True), (Compile.OFF, Compile.ON), (False, True))
    for dtype, ragged, compiled, learning in ways if cuda else [(torch.float32, False, Compile.ON, False)]:
        masks = (msa_mask.float(), pair_mask) if ragged else (None, None)
        found = []
        for where in (CPU, device):
            one = copy.deepcopy(block).to(where)
            if where == device:
                compile_blocks(one, compiled, device, 0)
                trials.use_kernels(Kernels.AUTO, device)
                if dtype == torch.bfloat16:
                    use_precision(one, dtype)
            leaves = [each.clone().to(where).requires_grad_(learning) for each in (msa, pair)]
            with torch.set_grad_enabled(learning):
                states = one(*leaves, *(mask if mask is None else mask.to(where) for mask in masks))
                if learning:
                    sum(state.tanh().sum() for state in states).backward()
                    states = [leaf.grad for leaf in leaves]
            found.append([state.detach().cpu() for state in states])
        for expected, actual in zip(*found, strict=True):
            error = (actual - expected).norm() / expected.norm()
            assert error <= (1e-5 if dtype == torch.float32 else 3e-2 if learning else 1e-2)
