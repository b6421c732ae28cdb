"""The arithmetic of parts of promoter models: the best match of filters, and interpolation between mutants."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from bioattn.models.promoter import layers as module
from bioattn.models.promoter.layers import best_match
from bioattn.models.promoter.mutant_bins import interpolation, smooth_rows
from bioattn.models.promoter.stem import one_hot


@pytest.mark.parametrize(
    ("promoters", "bins", "pool", "kernel", "filters"), [(5, 6, 8, 15, 7), (1, 1, 4, 1, 1), (19, 3, 5, 7, 4)]
)
def test_matches_and_gradients_are_those_of_convolution_and_amax(
    promoters, bins, pool, kernel, filters, monkeypatch
):
    monkeypatch.setattr(module, "PROMOTERS_AT_ONCE", 4)
    torch.manual_seed(0)
    codes = torch.randint(0, 5, (promoters, bins * pool), dtype=torch.uint8)  # with N
    codes[0, : 2 * pool] = 0  # a run of A: equal matches share the gradient
    bases = one_hot(codes)
    weight = torch.randn(filters, 4, kernel, requires_grad=True)
    upstream = torch.randn(promoters, bins, filters)

    ours = best_match(bases.transpose(1, 2), weight, pool)
    (our_gradient,) = torch.autograd.grad((ours * upstream).sum(), weight)

    matches = F.conv1d(bases, weight, padding=kernel // 2)
    theirs = matches.unflatten(-1, (bins, pool)).amax(-1).transpose(1, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    # Equal matches differ in the last bit between two summation orders, and then do not share: compare the
    # gradient where they agree on what is best.
    plain = codes.clone()
    plain[0] = torch.randint(0, 4, (bins * pool,), dtype=torch.uint8)
    assert our_gradient.shape == weight.shape
    bases = one_hot(plain)
    (ours,) = torch.autograd.grad((best_match(bases.transpose(1, 2), weight, pool) * upstream).sum(), weight)
    matches = F.conv1d(bases.double(), weight.double(), padding=kernel // 2)
    loss = (matches.unflatten(-1, (bins, pool)).amax(-1).transpose(1, 2) * upstream).sum()
    (theirs,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_smooth_function_follows_from_few_of_its_values():
    random = np.random.default_rng(0)
    variables = random.normal(0, 0.02, (300, 4)) + 0.3
    rows = smooth_rows(variables)
    assert rows.mean() > 0.9
    variables = variables[rows]
    slopes = random.uniform(-1, 1, (50, 4))

    nodes, weights = interpolation(variables)

    values = np.exp(variables @ slopes.T)
    assert len(nodes) < len(variables) / 2
    assert np.abs(weights).max() < 10
    np.testing.assert_allclose(weights @ values[nodes], values, rtol=2e-6)


def test_one_point_needs_one_node():
    nodes, weights = interpolation(np.full((5, 4), 0.1))
    assert len(nodes) == 1
    np.testing.assert_allclose(weights, np.ones((5, 1)))


def test_what_is_far_from_the_rest_is_not_smooth():
    variables = np.zeros((20, 4))
    variables[3, 1] = 0.5
    assert smooth_rows(variables).tolist() == [row != 3 for row in range(20)]
