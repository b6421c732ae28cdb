"""The page of layers: its program makes a convolution of an attention layer."""

import torch

from tests.docs.conftest import run_python, snippets


def test_attention_with_quadratic_encodings_is_a_convolution():
    torch.manual_seed(0)
    (code,) = snippets("layers")
    names = run_python(code)
    assert names["difference"] < 1e-5
    with torch.no_grad():  # the weights decide the result, so that the equality is not one of zeros
        names["convolution"].weight[0, 0, 0] += 0.1
    changed = names["attended"] - names["convolution"](names["inputs"].mT).mT
    assert changed[..., 0].abs().max() > 1e-2
    assert changed[..., 1:].abs().max() < 1e-5
