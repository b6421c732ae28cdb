"""Which way the operator goes, and that every way gives what the weights written down give."""

from contextlib import nullcontext

import pytest
import torch

from bioattn.attention import operator
from bioattn.attention.capture import capture
from bioattn.attention.operator import attend, attention_weights
from bioattn.attention.score import make_score
from bioattn.choices import AttentionScore
from tests.result_files import plain_site

HEADS, QUERIES, KEYS, CHANNELS, VALUES = 2, 5, 4, 3, 6


def drawn(*shape):
    return torch.randn(*shape)


def written_down(query, key, value, score, mask=None, bias=None):
    """softmax(logits + bias) value, a masked key at -1e30."""
    logits = score.logits(query, key)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = torch.where(mask, logits, logits.new_tensor(-1e30))
    return torch.softmax(logits, dim=-1) @ value


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("batch", [(HEADS,), (3, HEADS), (2, 3, HEADS), (2, 1, 3, HEADS)])
@pytest.mark.parametrize("score_name", list(AttentionScore))
@pytest.mark.parametrize("learning", [False, True])
def test_any_number_of_leading_axes(batch, shared, score_name, learning):
    """shared: keys and values, by all of the first axis, as treatments are by promoters."""
    torch.manual_seed(0)
    score = make_score(score_name, HEADS, CHANNELS)
    of_keys = (1, *batch[1:]) if shared and len(batch) > 1 else batch
    query, key = drawn(*batch, QUERIES, CHANNELS), drawn(*of_keys, KEYS, CHANNELS)
    value, mask = drawn(*of_keys, KEYS, VALUES), torch.ones(KEYS, dtype=torch.bool)
    mask[1] = False
    bias = drawn(HEADS, QUERIES, KEYS).requires_grad_(learning)
    for given in ({}, {"mask": mask}, {"bias": bias}, {"mask": mask, "bias": bias}):
        with torch.set_grad_enabled(learning):
            found = attend(query, key, value, score=score, **given)
        torch.testing.assert_close(
            found, written_down(query, key, value, score, **given), atol=1e-5, rtol=1e-5
        )
        weights = attention_weights(query, key, score=score, **given)
        torch.testing.assert_close(weights @ value, found, atol=1e-5, rtol=1e-5)
        if "mask" in given:
            assert (weights[..., 1] == 0).all()


@pytest.mark.parametrize("learning", [False, True])
def test_no_leading_axis(learning):
    torch.manual_seed(0)
    score = make_score(AttentionScore.DOT, 1, CHANNELS)
    query, key, value = drawn(QUERIES, CHANNELS), drawn(KEYS, CHANNELS), drawn(KEYS, VALUES)
    bias = drawn(QUERIES, KEYS).requires_grad_(learning)
    for given in ({}, {"bias": bias}, {"mask": torch.tensor([True, False, True, True])}):
        with torch.set_grad_enabled(learning):
            found = attend(query, key, value, score=score, **given)
        torch.testing.assert_close(
            found, written_down(query, key, value, score, **given), atol=1e-6, rtol=1e-5
        )


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("elements", [2 * HEADS * KEYS * CHANNELS, 1, 10**6])
def test_tiles_of_queries_are_as_large_as_memory_allows(elements, learning, monkeypatch):
    """Masks and biases with a row for each query, or one row for all."""
    monkeypatch.setattr(operator, "MAX_TILE_ELEMENTS", elements)
    torch.manual_seed(0)
    score = make_score(AttentionScore.ADDITIVE, HEADS, CHANNELS)
    query, key = drawn(HEADS, QUERIES, CHANNELS), drawn(HEADS, KEYS, CHANNELS)
    value = drawn(HEADS, KEYS, VALUES)
    sizes = []
    logits = score.logits
    monkeypatch.setattr(
        score, "logits", lambda q, k: sizes.append(q.shape[-2]) or logits(q, k), raising=False
    )
    one_row = torch.tensor([True, False, True, True])
    rows = torch.rand(QUERIES, KEYS) < 0.7
    rows[:, 0] = True
    for given in (
        {},
        {"mask": one_row},
        {"mask": one_row[None]},
        {"mask": rows},
        {"bias": drawn(HEADS, 1, KEYS)},
        {"bias": drawn(HEADS, QUERIES, KEYS), "mask": rows},
    ):
        sizes.clear()
        with torch.set_grad_enabled(learning):
            found = attend(query, key, value, score=score, **given)
        assert sizes == {1: [1] * 5, 10**6: [5]}.get(elements, [2, 2, 1])
        torch.testing.assert_close(
            found, written_down(query, key, value, score, **given), atol=1e-6, rtol=1e-5
        )


class Ignored:
    """A receiver that keeps nothing."""

    def receive(self, *_arguments):
        pass


class CalledError(Exception):
    """The way under watch was taken."""


def refuse(*_args, **_kwargs):
    raise CalledError


@pytest.mark.parametrize(
    ("grad", "bias_learns", "lonely_row", "taken"),
    [
        (True, True, False, True),
        (True, False, True, True),
        (True, False, False, False),
        (False, True, True, False),
        (False, True, False, False),
    ],
)
def test_the_way_that_learns_is_for_biases_that_learn_and_rows_without_keys(
    grad, bias_learns, lonely_row, taken, monkeypatch
):
    monkeypatch.setattr(operator, "attend_and_learn_on_cpu", refuse)
    query, key, value = drawn(1, HEADS, QUERIES, CHANNELS), *drawn(2, 1, HEADS, KEYS, CHANNELS).unbind(0)
    bias = drawn(HEADS, QUERIES, KEYS).requires_grad_(bias_learns)
    mask = torch.ones(1, 1, QUERIES, KEYS, dtype=torch.bool)
    mask[..., 1] = False
    if lonely_row:
        mask[..., 2, :] = False
    score = make_score(AttentionScore.DOT, HEADS, CHANNELS)
    with torch.set_grad_enabled(grad):
        if taken:
            with pytest.raises(CalledError):
                attend(query, key, value, score=score, mask=mask, bias=bias)
        else:
            attend(query, key, value, score=score, mask=mask, bias=bias)


@pytest.mark.parametrize("way", ["attend_and_learn_on_cpu", "attend_on_cpu"])
def test_the_leading_axes_decide_and_not_the_first_two(way, monkeypatch):
    """Three axes: heads alone lead. Five: keys that the heads share are left to torch, or to the weights."""
    monkeypatch.setattr(operator, way, refuse)
    dot = make_score(AttentionScore.DOT, HEADS, CHANNELS)
    site = plain_site(HEADS, "test.site") if way == "attend_on_cpu" else None
    for batch, heads, taken in (((), HEADS, True), ((2, 3), HEADS, True), ((2, 3), 1, False)):
        query, bias = drawn(*batch, HEADS, QUERIES, CHANNELS), drawn(HEADS, QUERIES, KEYS)
        key, value = drawn(*batch, heads, KEYS, CHANNELS), drawn(*batch, heads, KEYS, VALUES)
        bias.requires_grad_(site is None)
        with capture(["*"], Ignored()), pytest.raises(CalledError) if taken else nullcontext():
            attend(query, key, value, score=dot, bias=bias, site=site)


@pytest.mark.parametrize("channels", [4, 7])
def test_first_scores_vary_as_the_scaled_dot_product_does(channels):
    """Unit normal queries and keys: additive weights have variance 1/D, squared distances a width of D^-1/4."""
    torch.manual_seed(0)
    additive = make_score(AttentionScore.ADDITIVE, 400, channels)
    assert additive.weight_HD.std().item() == pytest.approx(channels**-0.5, rel=0.05)
    gaussian = make_score(AttentionScore.GAUSSIAN, 3, channels)
    assert torch.equal(gaussian.width_HD, torch.full((3, channels), channels**-0.25))
    query, key = drawn(3, 2, channels), drawn(3, 5, channels)
    expected = -0.5 * (query[:, :, None] - key[:, None]).square().sum(-1) / channels**0.5
    torch.testing.assert_close(gaussian.logits(query, key), expected, atol=1e-5, rtol=1e-5)
