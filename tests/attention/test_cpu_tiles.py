"""Attention in cache-sized pieces on the CPU against softmax written down in float64."""

import numpy as np
import pytest
import torch

from bioattn.attention import operator
from bioattn.attention.capture import capture
from bioattn.attention.cpu import tiles as cpu_tiles
from bioattn.attention.cpu.tiles import attend_by_sequence, attend_on_cpu
from bioattn.attention.operator import attend
from bioattn.attention.score import DotScore
from tests.result_files import Heard, plain_site

BATCH, HEADS, QUERIES, KEYS, CHANNELS = 3, 4, 40, 50, 8


@pytest.fixture(autouse=True)
def _small_is_enough(monkeypatch):
    """Take this way at the sizes of a test, in pieces that divide neither heads nor queries."""
    monkeypatch.setattr(cpu_tiles, "MIN_MULTIPLICATIONS", {torch.float32: 1, torch.bfloat16: 1})
    with torch.no_grad():
        yield


def inputs(*, with_mask, with_bias, largest=1.0, dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    # Heads between positions, as a fused projection leaves them.
    query, key, value = (
        torch.randn(BATCH, n, HEADS, CHANNELS, generator=random).mul(largest).to(dtype).transpose(1, 2)
        for n in (QUERIES, KEYS, KEYS)
    )
    mask = torch.rand(BATCH, 1, 1, KEYS, generator=random) < 0.6 if with_mask else None
    if mask is not None:
        mask[1] = False
    bias = torch.randn(HEADS, QUERIES, KEYS, generator=random).to(dtype) if with_bias else None
    return query, key, value, mask, bias


def written_down(query, key, value, mask, bias):
    logits = query.double() @ key.double().mT / CHANNELS**0.5
    if bias is not None:
        logits = logits + bias.double()
    if mask is not None:
        logits = torch.where(mask, logits, -1e30)
    weights = torch.softmax(logits, -1)
    return weights, weights @ value.double()


@pytest.mark.parametrize("piece_bytes", [1, 4 * KEYS * 7, 4 * KEYS * QUERIES * 3, 1 << 20])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_equals_softmax(with_mask, with_bias, piece_bytes, monkeypatch):
    monkeypatch.setattr(cpu_tiles, "CACHE_BYTES", piece_bytes)
    query, key, value, mask, bias = inputs(with_mask=with_mask, with_bias=with_bias)
    weights = torch.full((BATCH, HEADS, QUERIES, KEYS), torch.nan)
    given = [t.clone() for t in (query, key, value)]
    attended = attend_on_cpu(
        query, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias, weights_BHQK=weights
    )
    expected_weights, expected = written_down(query, key, value, mask, bias)
    np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=2e-6)
    np.testing.assert_allclose(weights.numpy(), expected_weights.numpy(), atol=1e-6)
    for tensor, before in zip((query, key, value), given, strict=True):
        assert torch.equal(tensor, before)


@pytest.mark.parametrize("with_mask", [False, True])
def test_queries_that_all_sequences_share_broadcast(with_mask):
    """As treatments do in `cross`: they ask every promoter the same."""
    query, key, value, mask, bias = inputs(with_mask=with_mask, with_bias=True)
    expected = written_down(query[:1], key, value, mask, bias)[1]
    for shared in (query[:1], query[:1].clone().expand(BATCH, -1, -1, -1)):
        before = shared.clone()
        attended = attend_on_cpu(shared, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias)
        np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=2e-6)
        assert torch.equal(shared, before)
    np.testing.assert_allclose(
        attend(query[:1], key, value, score=DotScore(), mask=mask, bias=bias).numpy(),
        expected.numpy(),
        atol=2e-6,
    )


@pytest.mark.parametrize("largest", [1.0, 1e3])
@pytest.mark.parametrize("shared", [False, True])
def test_sequence_by_sequence_equals_softmax(shared, largest):
    """With logits of any size, and in sequences without any key."""
    query, key, value, mask, bias = inputs(with_mask=True, with_bias=True, largest=largest)
    query = query[:1] if shared else query
    attended = attend_by_sequence(query, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias)
    expected = written_down(query, key, value, mask, bias)[1]
    np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=3e-6 * largest)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_either_way_is_taken_by_processor_alone(with_mask, with_bias, fast, monkeypatch):
    monkeypatch.setattr(operator, "torch_is_at_full_speed", lambda: fast)
    query, key, value, mask, bias = inputs(with_mask=with_mask, with_bias=with_bias)
    attended = attend(query, key, value, score=DotScore(), mask=mask, bias=bias)
    expected = written_down(query, key, value, mask, bias)[1]
    np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=2e-6)


def test_logits_near_the_bound_keep_their_digits():
    query, key, value, mask, bias = inputs(with_mask=True, with_bias=True)
    # All keys of head 0 score -65, of head 1 +65: powers of 2^-94 and 2^94.
    bias = bias * 0
    bias[0], bias[1] = -65.0, 65.0
    query, key = query * 0.1, key * 0.1
    attended = attend_on_cpu(query, key, value, scale=CHANNELS**-0.5, mask=mask, bias=bias)
    assert attended is not None
    np.testing.assert_allclose(
        attended.numpy(), written_down(query, key, value, mask, bias)[1].numpy(), atol=2e-6
    )


@pytest.mark.parametrize("huge", ["query", "masked key", "bias", "negative bias", "nan"])
def test_logits_beyond_the_bound_are_left_to_others(huge):
    query, key, value, mask, bias = inputs(with_mask=True, with_bias=True)
    if huge == "query":
        query[0, 0, 0] = 1e4
    elif huge == "masked key":
        key[0, 0, ~mask[0, 0, 0]] = 1e5
    elif huge == "nan":
        query[0, 0, 0] = torch.nan
    else:
        bias[2, 0] = -200.0 if huge.startswith("negative") else 200.0
    assert attend_on_cpu(query, key, value, scale=1.0, mask=mask, bias=bias) is None
    attended = attend(query, key, value, score=DotScore(), mask=mask, bias=bias)
    _, expected = written_down(query, key, value, mask, bias)
    np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("value_weighted", [False, True])
def test_a_listener_gets_the_same_weights(value_weighted):
    query, key, value, mask, bias = inputs(with_mask=True, with_bias=True)
    site = plain_site(HEADS, "a", ("row", "head", "query", "key"))
    heard = Heard()
    with capture(["a"], heard, value_weighted=value_weighted):
        attended = attend(query, key, value, score=DotScore(), mask=mask, bias=bias, site=site)
    weights, expected = written_down(query, key, value, mask, bias)
    np.testing.assert_allclose(heard.weights[0].numpy(), weights.numpy(), atol=1e-6)
    np.testing.assert_allclose(attended.numpy(), expected.numpy(), atol=2e-6)
    if value_weighted:
        norms = value.double().norm(dim=-1).unsqueeze(-2)
        np.testing.assert_allclose(heard.received[0][2].numpy(), (weights * norms).numpy(), atol=1e-5)
