"""The ways of a GPU against weights written down: masks in a channel, kernels of Triton and of torch."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.attention.flex_attention as flex

from bioattn.attention import cpu, kernels
from bioattn.attention.capture import capture
from bioattn.attention.operator import attend, attend_flexibly
from bioattn.attention.score import DotScore
from tests.result_files import plain_site

HEADS, CHANNELS = 2, 16
SITE = plain_site(HEADS, "test.site", dims=("row", "head", "query", "key"))
LENGTHS = (64, 192, 320)
"""Those at which cuDNN's gradients were NaN, too."""


def drawn(length, device, dtype=torch.float32, rows=3):
    """Queries, keys, values, a bias, a mask whose first row has no key, and a slope."""
    torch.manual_seed(length)
    tensors = [torch.randn(rows, HEADS, length, CHANNELS) for _ in range(4)]
    query, key, value, slope = (each.to(device, dtype) for each in tensors)
    mask = torch.rand(rows, 1, 1, length) < 0.6
    mask[0], mask[-1] = False, True
    return query, key, value, torch.randn(HEADS, length, length).to(device, dtype), mask.to(device), slope


def written_down(query, key, value, mask, bias):
    """Weights and attended values, in float32."""
    logits = query.float() @ key.float().mT * CHANNELS**-0.5
    if bias is not None:
        logits = logits + bias.float()
    if mask is not None:
        logits = logits + torch.where(mask, 0.0, -1e30)
    weights = logits.softmax(-1)
    return weights, weights @ value.float()


def gradients(function, query, key, value, bias, slope):
    leaves = [each.detach().clone().requires_grad_() for each in (query, key, value, bias)]
    attended = function(*leaves)
    return [attended.detach(), *torch.autograd.grad((attended * slope).sum(), leaves)]


def assert_near(found, expected, dtype=torch.float32):
    for one, other in zip(found, expected, strict=True):
        assert torch.isfinite(one).all()
        if dtype == torch.float32:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        else:
            assert (one.float() - other.float()).norm() <= 1e-2 * other.float().norm()


@pytest.fixture
def whole(monkeypatch):
    """On a CPU, what is done on a GPU."""
    monkeypatch.setattr(cpu, "on_cpu", lambda _: False)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("masked", ["ragged", "some", None])
def test_gradients_of_masks_in_a_channel(length, masked, device, whole, monkeypatch):
    """And no kernel of cuDNN is asked for them."""
    query, key, value, bias, mask, slope = drawn(length, device)
    mask = {"ragged": mask, "some": mask | (torch.arange(length, device=device) < 3), None: None}[masked]
    seen, kernel = [], torch.nn.functional.scaled_dot_product_attention

    def watch(*given, attn_mask=None, **settings):
        seen.append((attn_mask, torch.backends.cuda.cudnn_sdp_enabled()))
        return kernel(*given, attn_mask=attn_mask, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch)
    given = query, key, value, bias, slope
    found = gradients(lambda q, k, v, b: attend(q, k, v, score=DotScore(), mask=mask, bias=b), *given)
    assert_near(found, gradients(lambda q, k, v, b: written_down(q, k, v, mask, b)[1], *given))
    if masked == "ragged":
        assert not seen  # a row without keys has gradients of its own
    else:
        assert [(offset.shape, cudnn) for offset, cudnn in seen] == [((1, *bias.shape), False)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_masks_and_biases_without_gradients(dtype, device, whole):
    query, key, value, bias, mask, _ = drawn(70, device, dtype)
    for given in ({"bias": bias}, {"mask": mask}, {"mask": mask, "bias": bias}, {}):
        found = attend(query, key, value, score=DotScore(), **given)
        expected = written_down(query, key, value, given.get("mask"), given.get("bias"))[1]
        assert_near([found], [expected], dtype)


@pytest.mark.parametrize("masked", [True, False])
def test_flexible_attention_has_the_same_gradients(masked, device, monkeypatch):
    """Not compiled, it is written down too; on a CPU torch refuses the gradients that it can compute."""
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    query, key, value, bias, mask, slope = drawn(64, device)
    mask = mask if masked else None
    given = query, key, value, bias, slope
    found = gradients(lambda q, k, v, b: attend_flexibly(q, k, v, CHANNELS**-0.5, mask, b), *given)
    assert_near(found, gradients(lambda q, k, v, b: written_down(q, k, v, mask, b)[1], *given))


class Reduced:
    """A receiver that wants the sum or the maximum of all rows."""

    def __init__(self, reduce):
        self.reduce = reduce
        self.maps = []

    def over_rows(self, site):
        return self.reduce

    def receive(self, site, weights, value_weighted, tile=None):
        raise AssertionError("the weights of all rows were made")

    def receive_reduced(self, site, weights, tile, number):
        self.maps.append((weights, number))


# Numbers of 16 bits that NumPy has: an interpreted kernel can multiply no others.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("reduce", ["sum", "max"])
@torch.no_grad()
def test_triton_makes_the_map_of_all_rows(reduce, dtype, device, whole, monkeypatch):
    pytest.importorskip("triton")
    from bioattn.attention import triton_kernels

    monkeypatch.setattr(kernels.Used, "attention", True)
    if device.type == "cpu":
        monkeypatch.setattr(triton_kernels, "ROWS", 16)
        monkeypatch.setattr(triton_kernels, "COLUMNS", 16)
    query, key, value, bias, mask, _ = drawn(70 if device.type == "cuda" else 20, device, dtype)
    for given in ({"mask": mask, "bias": bias}, {}):
        receiver = Reduced(reduce)
        with capture(["*"], receiver):
            found = attend(query, key, value, score=DotScore(), site=SITE, **given)
        weights, attended = written_down(query, key, value, given.get("mask"), given.get("bias"))
        ((maps, number),) = receiver.maps
        assert number == len(query)
        assert_near([found, maps], [attended, weights.sum(0) if reduce == "sum" else weights.amax(0)], dtype)
    unheard = attend(query, key, value, score=DotScore(), mask=mask, bias=bias)
    assert_near([unheard], [written_down(query, key, value, mask, bias)[1]], dtype)


COMPILING = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from bioattn.attention import triton_kernels as ours

chosen = {"has_bias": True, "has_mask": True, "precision": "tf32", "largest": False}
chosen |= {"wide": 32, "num_rows": ours.ROWS, "num_columns": ours.COLUMNS}
odd = "num_heads", "num_queries", "num_keys", "num_sequences"
for kernel in (ours._attend, ours._over_sequences):
    types, multiples, constants = {}, {}, {}
    for place, name in enumerate(kernel.arg_names):
        pointer = "*bf16" if name in ("query", "key", "value", "bias", "attended") else "*fp32"
        is_pointer = name in ("query", "key", "value", "bias", "attended", "offset", "lives", "sums", "maps")
        types[name] = pointer if is_pointer else "fp32" if name == "scale" else "i32"
        if name in chosen:
            types[name], constants[place,] = "constexpr", chosen[name]
        elif name != "scale" and name not in odd:
            multiples[place,] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, types, constants, multiples)
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm
    assert code["cubin"] and "wgmma" in code["ptx"]
    assert "ld.global.b16" not in code["ptx"], kernel
"""


def test_kernels_compile_for_a_gpu():
    """For an H100, with the compiler that Triton brings; no number is loaded alone, whatever the length."""
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILING], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
