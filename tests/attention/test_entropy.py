"""Entropy of attention rows: against a plain loop, its gradient against differences, and where it is heard."""

import math

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.measures import EntropyMeter, relative_entropy
from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Axis


def looped(rows, *, sink):
    result = []
    for row in rows:
        shares = [*row, 1 - sum(row)] if sink else list(row)
        nats = -sum(share * math.log(share) for share in shares if share > 0)
        result.append(nats / math.log(len(shares)))
    return result


@pytest.mark.parametrize("sink", [False, True])
def test_it_is_the_entropy_of_each_row(sink):
    random = np.random.default_rng(0)
    rows = random.dirichlet(np.full(7, 0.4), size=20)
    rows[0] = [0, 0, 1, 0, 0, 0, 0]
    rows[1] = 1 / 7
    if sink:
        rows *= random.random((20, 1))
    found = relative_entropy(torch.from_numpy(rows), null_key=sink)
    np.testing.assert_allclose(found.numpy(), looped(rows, sink=sink), atol=1e-9)
    if not sink:
        np.testing.assert_allclose(found[:2].numpy(), [0, 1], atol=1e-9)


@pytest.mark.parametrize("sink", [False, True])
def test_a_loss_can_hold_it(sink):
    """Gradients reach queries and keys through the operator, masked keys among them, as differences say."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 6, 6))
    mask = torch.ones(2, 1, 1, 6, dtype=torch.bool)
    mask[0, ..., 2] = False
    site = AttentionSite(
        name="s",
        axes=tuple(map(Axis, ("sample", "head", "query", "key"))),
        heads=tuple(range(3)),
        null_key=sink,
    )

    def price(query, key):
        meter = EntropyMeter()
        with capture(["*"], meter, gradients=True):
            attend(query, key, value, score=DotScore(), mask=mask, site=site)
        return meter.mean()

    # The meter works in float32, so steps must be large and tolerances loose.
    assert torch.autograd.gradcheck(price, (query, key), eps=1e-3, atol=2e-3, rtol=2e-2)
    gradient = torch.autograd.grad(price(query, key), query)[0]
    assert float(gradient.abs().max()) > 1e-3
