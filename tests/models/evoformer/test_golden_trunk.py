"""Both stacks against the golden vectors (OpenFold's, equal to AlphaFold's JAX modules)."""

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.models.evoformer import layers
from tests.models.evoformer.golden import CASES, assert_close, golden_case, stacked


class Recorder:
    """A sink that joins tiles to whole arrays, and checks that they come in order."""

    def __init__(self):
        self.parts = {}

    def receive(self, site, weights, value_weighted, tile=None):
        parts = self.parts.setdefault(site.name, [])
        assert weights.dim() == len(site.dims)
        assert tile.axis == site.dims[0]
        assert tile.start == sum(len(part) for part in parts)
        parts.append(weights.numpy().copy())

    def whole(self, name):
        return np.concatenate(self.parts[name])


@pytest.fixture(params=CASES)
def golden(request, shared):
    made = golden_case(shared / "golden", request.param)
    made.model.zero_grad()
    return made


@pytest.fixture(params=[True, False], ids=["no_grad", "grad"])
def autograd_off(request):
    """With autograd and without it other code runs."""
    with torch.set_grad_enabled(not request.param):
        yield request.param


@pytest.fixture(autouse=True, params=[False, True], ids=["whole", "tiled"])
def _tiled(request, monkeypatch):
    """In tiles of three rows, computed again for gradients, and in one piece through autograd."""
    if request.param:
        monkeypatch.setattr(layers, "rows_per_tile", lambda *_: 3)
        monkeypatch.setattr(layers, "MIN_RECOMPUTED_ELEMENTS", 0)


def tensors(arrays, *names):
    return tuple(torch.from_numpy(arrays[f"in/{name}"].copy()) for name in names)


@pytest.mark.shared
def test_evoformer_stack(golden, autograd_off):
    arrays = golden.arrays("evoformer_stack")
    stack = golden.model.evoformer
    inputs = tensors(arrays, "m", "z", "msa_mask", "pair_mask")
    largest = max(float(x.abs().max()) for x in inputs)
    msa, pair, *masks = (x.clone() for x in inputs)
    recorder = Recorder()
    with capture(["*"], recorder):
        for i, block in enumerate(stack.blocks):
            msa, pair = block(msa, pair, *masks)
            assert_close(msa, arrays[f"out/m_block{i}"], largest)
            assert_close(pair, arrays[f"out/z_block{i}"], largest)
            for site, name in (
                ("msa_row", "msa_row_attention_with_pair_bias"),
                ("msa_column", "msa_column_attention"),
                ("triangle_starting", "triangle_attention_starting_node"),
                ("triangle_ending", "triangle_attention_ending_node"),
            ):
                np.testing.assert_allclose(
                    recorder.whole(f"evoformer.{i:02d}.{site}"), arrays[f"attn/block{i}/{name}"], atol=2e-6
                )
    msa, pair, single = stack(*(x.clone() for x in inputs))
    for tensor, name in ((msa, "m"), (pair, "z"), (single, "s")):
        assert_close(tensor, arrays[f"out/{name}"], largest)


@pytest.mark.shared
def test_extra_msa_stack(golden, autograd_off):
    arrays = golden.arrays("extra_msa_stack")
    stack = golden.model.extra_msa_stack
    inputs = tensors(arrays, "e", "z", "extra_msa_mask", "pair_mask")
    largest = max(float(x.abs().max()) for x in inputs)
    msa, pair = stack.blocks[0](*(x.clone() for x in inputs))
    assert_close(msa, arrays["out/e_block0_af2"], largest)
    assert_close(pair, arrays["out/z_block0"], largest)
    assert_close(stack(*(x.clone() for x in inputs)), arrays["out/z"], largest)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.shared
def test_gradients(golden, recompute):
    inputs = golden.arrays("evoformer_stack")
    arrays = golden.arrays("evoformer_grad")
    stack = golden.model.evoformer
    msa, pair, *masks = tensors(inputs, "m", "z", "msa_mask", "pair_mask")
    outputs = stack(msa.requires_grad_(), pair.requires_grad_(), *masks, recompute=recompute)
    loss = sum(
        (weight * output).sum() / output.numel()
        for weight, output in zip(tensors(arrays, "wm", "wz", "ws"), outputs, strict=True)
    )
    np.testing.assert_allclose(loss.item(), arrays["out/loss"], rtol=1e-4)
    loss.backward()
    expected = {"m": arrays["out/dm"], "z": arrays["out/dz"]}
    actual = {"m": msa.grad, "z": pair.grad}
    for name, gradient in stacked(golden.model.config, arrays, "out/dparam/").items():
        expected[name] = gradient
        actual[name] = golden.model.get_parameter(name).grad
    assert sum(p.numel() for p in stack.parameters()) == sum(
        gradient.size for name, gradient in expected.items() if name not in "mz"
    )
    for name, gradient in expected.items():
        # Some gradients are 0 but for rounding: an offset that all keys share leaves the softmax.
        atol = max(1e-5 * np.abs(gradient).max(), 1e-8)
        np.testing.assert_allclose(actual[name].numpy(), gradient, rtol=1e-4, atol=atol, err_msg=name)
