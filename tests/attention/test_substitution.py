"""Weights put in place of a layer's own: out come those weights times the values, and nothing else changes."""

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture, substitute
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.operator import attend, attention_weights
from bioattn.attention.score import make_score
from bioattn.attention.site import AttentionSite
from bioattn.choices import AttentionScore
from tests.result_files import Heard, plain_site

BATCH, HEADS, QUERIES, KEYS, CHANNELS = 2, 3, 4, 6, 5
SITE = plain_site(HEADS, "test.site")


def inputs():
    torch.manual_seed(0)
    query = torch.randn(BATCH, HEADS, QUERIES, CHANNELS)
    key, value = torch.randn(2, BATCH, HEADS, KEYS, CHANNELS)
    return query, key, value


@pytest.mark.parametrize("score_name", ["dot", "additive", "gaussian"])
def test_other_queries_weights_times_the_values(score_name):
    query, key, value = inputs()
    score = make_score(AttentionScore(score_name), HEADS, CHANNELS)
    own, used = Heard(), Heard()
    with torch.inference_mode():
        plain = attend(query, key, value, score=score, site=SITE)
        with capture(["*"], own):
            attend(query, key, value, score=score, site=SITE)
        with substitute(["test.*"], lambda _site, weights, _tile: weights.roll(1, dims=-2), used):
            swapped = attend(query, key, value, score=score, site=SITE)
    weights = own.weights[0].double().numpy()
    expected = np.zeros((BATCH, HEADS, QUERIES, CHANNELS))
    for b in range(BATCH):
        for h in range(HEADS):
            for q in range(QUERIES):
                for k in range(KEYS):
                    expected[b, h, q] += weights[b, h, q - 1, k] * value[b, h, k].double().numpy()
    np.testing.assert_allclose(swapped.numpy(), expected, atol=1e-5)
    assert np.abs(swapped.numpy() - plain.numpy()).max() > 0.05
    torch.testing.assert_close(used.weights[0], own.weights[0].roll(1, dims=-2))
    torch.testing.assert_close(attend(query, key, value, score=score, site=SITE), plain)


def test_own_weights_change_nothing_and_other_sites_are_left_alone():
    query, key, value = inputs()
    score = make_score(AttentionScore.DOT, HEADS, CHANNELS)
    plain = attend(query, key, value, score=score, site=SITE)
    with substitute(["*"], lambda _site, weights, _tile: weights):
        torch.testing.assert_close(attend(query, key, value, score=score, site=SITE), plain)

    def refuse(_site, _weights, _tile):
        raise AssertionError("another site's weights")

    with substitute(["other.*"], refuse):
        assert torch.equal(attend(query, key, value, score=score, site=SITE), plain)


def test_layers_that_use_the_weights_themselves_get_the_others():
    query, key, _ = inputs()
    score = make_score(AttentionScore.DOT, HEADS, CHANNELS)
    with substitute(["*"], lambda _site, weights, _tile: torch.full_like(weights, 1 / KEYS)):
        weights = attention_weights(query, key, score=score, site=SITE)
    assert torch.equal(weights, torch.full((BATCH, HEADS, QUERIES, KEYS), 1 / KEYS))


def test_a_sinks_weight_is_the_last_and_uses_no_value():
    site = AttentionSite(name="with.sink", axes=SITE.axes, heads=SITE.heads, null_key=True)
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        query_channels=8, output_channels=8, num_heads=HEADS, head_channels=4, site=site
    )
    key = torch.randn(BATCH, KEYS, 8)

    def all_on_the_sink(_site, weights, _tile):
        assert weights.shape[-1] == KEYS + 1
        return torch.eye(KEYS + 1)[-1].expand_as(weights)

    with torch.inference_mode(), substitute(["*"], all_on_the_sink):
        answer = layer(torch.randn(BATCH, QUERIES, 8), key, key)
    torch.testing.assert_close(answer, layer.project_output.bias.expand_as(answer))
