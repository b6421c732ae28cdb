"""The attention operator, its tiles and the entropy of rows, against plain loops and its own two paths."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bioattn.attention import operator
from bioattn.attention.capture import capture
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.operator import attend, attention_weights
from bioattn.attention.score import make_score
from bioattn.attention.site import AttentionSite, Axis, MapTiles
from bioattn.choices import AttentionScore
from bioattn.models.evoformer.sites import alignment_site
from tests.result_files import Heard, plain_site

BATCH, HEADS, QUERIES, KEYS, CHANNELS, VALUES = 2, 3, 5, 7, 4, 6
SITE = plain_site(HEADS, "test.site")


def inputs(score_name, *, with_mask, with_bias, seed=0):
    torch.manual_seed(seed)
    score = make_score(AttentionScore(score_name), HEADS, CHANNELS)
    for parameter in getattr(score, "parameters", list)():
        torch.nn.init.normal_(parameter)
    query = torch.randn(BATCH, HEADS, QUERIES, CHANNELS)
    key = torch.randn(BATCH, HEADS, KEYS, CHANNELS)
    value = torch.randn(BATCH, HEADS, KEYS, VALUES)
    mask = torch.rand(BATCH, 1, QUERIES, KEYS) < 0.6 if with_mask else None
    if mask is not None:
        mask[0, 0, 2] = False  # a row that may attend nothing
    bias = torch.randn(1, HEADS, QUERIES, KEYS) if with_bias else None
    return score, query, key, value, mask, bias


def looped(score_name, score, query, key, value, mask, bias):
    """Softmax attention one pair at a time, in float64."""
    weights = np.zeros((BATCH, HEADS, QUERIES, KEYS))
    output = np.zeros((BATCH, HEADS, QUERIES, VALUES))
    q, k, v = (t.double().numpy() for t in (query, key, value))
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(QUERIES):
                logits = []
                for j in range(KEYS):
                    if score_name == "dot":
                        logit = q[b, h, i] @ k[b, h, j] / math.sqrt(CHANNELS)
                    elif score_name == "additive":
                        w = score.weight_HD[h].detach().double().numpy()
                        logit = w @ np.tanh(q[b, h, i] + k[b, h, j])
                    else:
                        w = score.width_HD[h].detach().double().numpy()
                        logit = -0.5 * np.sum(((q[b, h, i] - k[b, h, j]) * w) ** 2)
                    if bias is not None:
                        logit += float(bias[0, h, i, j])
                    logits.append(logit)
                allowed = [True] * KEYS if mask is None else [bool(mask[b, 0, i, j]) for j in range(KEYS)]
                if not any(allowed):
                    row = np.full(KEYS, 1 / KEYS)
                else:
                    exponentials = [math.exp(x) if ok else 0.0 for x, ok in zip(logits, allowed, strict=True)]
                    row = np.array(exponentials) / sum(exponentials)
                weights[b, h, i] = row
                output[b, h, i] = row @ v[b, h]
    return weights, output


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
@pytest.mark.parametrize("score_name", ["dot", "additive", "gaussian"])
def test_both_paths_agree_with_the_loop(score_name, with_mask, with_bias):
    score, query, key, value, mask, bias = inputs(score_name, with_mask=with_mask, with_bias=with_bias)
    expected_weights, expected = looped(score_name, score, query, key, value, mask, bias)
    recorder = Heard()
    with torch.no_grad():
        fused = attend(query, key, value, score=score, mask=mask, bias=bias, site=SITE)
        with capture(["test.*"], recorder, value_weighted=True):
            explicit = attend(query, key, value, score=score, mask=mask, bias=bias, site=SITE)
    (site, weights, value_weighted), *rest = recorder.received
    assert not rest
    assert site is SITE
    np.testing.assert_allclose(fused.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(explicit.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(weights.numpy(), expected_weights, atol=2e-6)
    norms = np.linalg.norm(value.numpy(), axis=-1)[:, :, None, :]
    np.testing.assert_allclose(value_weighted.numpy(), expected_weights * norms, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("score_name", ["dot", "additive", "gaussian"])
def test_a_row_without_keys_is_uniform_however_large_the_logits(score_name, scale):
    score, query, key, value, _, _ = inputs(score_name, with_mask=False, with_bias=False)
    mask = torch.zeros(BATCH, 1, QUERIES, KEYS, dtype=torch.bool)
    with torch.no_grad():
        output = attend(query * scale, key * scale, value, score=score, mask=mask)
    np.testing.assert_allclose(
        output.numpy(), value.mean(-2, keepdim=True).expand_as(output).numpy(), atol=1e-5
    )


@pytest.mark.parametrize("score_name", ["dot", "additive", "gaussian"])
def test_gradients_of_both_paths_agree(score_name, monkeypatch):
    # Tiny tiles make the additive path cut its queries up and recompute them.
    monkeypatch.setattr(operator, "MAX_TILE_ELEMENTS", 2 * BATCH * HEADS * KEYS * CHANNELS)
    gradients = []
    for captured in (False, True):
        score, query, key, value, mask, bias = inputs(score_name, with_mask=True, with_bias=True)
        leaves = [t.requires_grad_() for t in (query, key, value, bias)]
        if captured:
            with capture(["*"], Heard()):
                attend(
                    query, key, value, score=score, mask=mask, bias=bias, site=SITE
                ).square().sum().backward()
        else:
            attend(query, key, value, score=score, mask=mask, bias=bias, site=SITE).square().sum().backward()
        gradients.append([leaf.grad for leaf in leaves] + [p.grad for p in score.parameters()])
    for fused, explicit in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, explicit, atol=2e-5, rtol=1e-4)


def test_without_a_listener_no_weights_are_made(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the explicit path ran")

    monkeypatch.setattr(operator, "_softmax", refuse)
    score, query, key, value, _, _ = inputs("dot", with_mask=False, with_bias=False)
    with capture(["other.*"], Heard()):
        attend(query, key, value, score=score, site=SITE)


def test_a_sink_takes_part_but_is_not_handed_on():
    torch.manual_seed(1)
    site = plain_site(2, "s", null_key=True)
    attention = MultiHeadAttention(
        query_channels=8,
        key_channels=6,
        value_channels=6,
        output_channels=8,
        num_heads=2,
        head_channels=4,
        site=site,
    )
    torch.nn.init.normal_(attention.sink_key_HD)
    query, key = torch.randn(3, 2, 8), torch.randn(3, 9, 6)
    mask = torch.ones(3, 1, 1, 9, dtype=torch.bool)
    mask[..., 5:] = False
    recorder = Heard()
    fused = attention(query, key, key, mask=mask)
    with capture(["s"], recorder, value_weighted=True):
        explicit = attention(query, key, key, mask=mask)
    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=0)
    weights = recorder.received[0][1]
    assert weights.shape == (3, 2, 2, 9)
    assert (weights.sum(-1) < 1).all()
    assert (weights[..., 5:] == 0).all()
    # What is missing to 1 is what the sink key got.
    projected_query = attention._split_heads(attention.project_query(query))
    projected_key = attention._split_heads(attention.project_key(key))[..., :5, :]
    keys = torch.cat([projected_key, attention.sink_key_HD[None, :, None].expand(3, -1, 1, -1)], dim=-2)
    expected = attention_weights(projected_query, keys, score=attention.score)
    torch.testing.assert_close(1 - weights.sum(-1), expected[..., -1], atol=1e-6, rtol=0)


def test_weights_of_one_query_lose_its_axis_and_keep_the_values_norms():
    """Global column attention: one query a column, keys and values shared by the heads."""
    torch.manual_seed(3)
    residues, rows = 4, 6
    score = make_score(AttentionScore.DOT, HEADS, CHANNELS)
    query = torch.randn(residues, HEADS, 1, CHANNELS)
    key, value = torch.randn(residues, 1, rows, CHANNELS), torch.randn(residues, 1, rows, VALUES)
    mask = torch.rand(residues, 1, 1, rows) < 0.7
    site = alignment_site("extra_msa", 2, "msa_column_global", HEADS)
    recorder = Heard()
    with capture(["*.msa_column_global"], recorder, value_weighted=True):
        weights = attention_weights(query, key, score=score, mask=mask, value=value, site=site)
    _, heard, norms = recorder.received[0]
    assert heard.shape == (residues, HEADS, rows)
    torch.testing.assert_close(heard, weights[:, :, 0])
    for residue in range(residues):
        for row in range(rows):
            norm = math.sqrt(sum(x * x for x in value[residue, 0, row].tolist()))
            torch.testing.assert_close(norms[residue, :, row], heard[residue, :, row] * norm)


@pytest.mark.parametrize("null_key", [False, True], ids=["", "null key"])
@pytest.mark.parametrize("with_mask", [False, True], ids=["", "mask"])
@pytest.mark.parametrize("queries", [KEYS, 3, 1])
@pytest.mark.parametrize("score_name", ["dot", "additive", "gaussian"])
def test_causal_attention_is_that_of_each_prefix(score_name, queries, with_mask, null_key):
    """Also with fewer queries than keys: the last query is at the last key."""
    site = replace(SITE, null_key=null_key)
    score, _, key, value, _, _ = inputs(score_name, with_mask=False, with_bias=False)
    query = torch.randn(BATCH, HEADS, queries, CHANNELS)
    mask = (
        torch.tensor([True, False, True, True, False, True, True]).view(1, 1, 1, KEYS) if with_mask else None
    )
    positions = KEYS - null_key
    if queries > positions:
        query = query[:, :, 1:]
    recorder = Heard()
    with torch.no_grad():
        fast = attend(query, key, value, score=score, mask=mask, causal=True, site=site)
        with capture(["*"], recorder):
            torch.testing.assert_close(
                attend(query, key, value, score=score, mask=mask, causal=True, site=site), fast
            )
        for row in range(query.shape[2]):
            last = positions - query.shape[2] + row + 1
            seen = [*range(last), *range(positions, KEYS)]
            alone = attend(
                query[:, :, [row]],
                key[:, :, seen],
                value[:, :, seen],
                score=score,
                mask=None if mask is None else mask[..., seen],
            )
            torch.testing.assert_close(fast[:, :, [row]], alone)
            assert (recorder.received[0][1][:, :, row, last:positions] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("residues", [50, 400])
def test_rows_of_half_precision_weights_sum_to_one(dtype, residues):
    """In small and in large pieces, where the operator has ways of its own."""
    torch.manual_seed(4)
    query, key, value = torch.randn(3, 2, HEADS, residues, 32).to(dtype).unbind(0)
    site = alignment_site("evoformer", 0, "msa_row", HEADS)
    recorder = Heard()
    with torch.no_grad(), capture(["*"], recorder):
        attend(query, key, value, score=make_score(AttentionScore.DOT, HEADS, 32), site=site)
    weights = recorder.received[0][1]
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, residues), atol=1e-5, rtol=0)
    exact = attention_weights(query.double(), key.double(), score=make_score(AttentionScore.DOT, HEADS, 32))
    torch.testing.assert_close(weights.double(), exact, rtol=0.05, atol=1e-6)


TILED_SITE = AttentionSite(
    name="x", axes=tuple(Axis(name) for name in ("sample", "head", "query", "key")), heads=(0, 1, 2)
)
TILED_HEADS, TILED_KEYS, TILED_CHANNELS = 3, 23, 4


class Kept:
    """Puts tiles together again."""

    def __init__(self, queries):
        self.weights_HQK = torch.full((TILED_HEADS, queries, TILED_KEYS), torch.nan)
        self.values_HQK = torch.full((TILED_HEADS, queries, TILED_KEYS), torch.nan)
        self.order = []
        self.last = (torch.zeros(1), torch.zeros(1))

    def require_last(self):
        """The last tile is as it was handed over: somebody may still be writing it."""
        assert torch.equal(*self.last)

    def receive(self, site, weights, value_weighted, tile=None):
        self.require_last()
        self.last = weights, weights.clone()
        rows = slice(tile.start, tile.start + weights.shape[2])
        self.weights_HQK[tile.head, rows] = weights[0, 0]
        self.order.append((tile.head, tile.start))
        if value_weighted is not None:
            self.values_HQK[tile.head, rows] = value_weighted[0, 0]


def attended(tiles, *, queries=TILED_KEYS, size=1.0, **given):
    """What is attended, what was handed over, and both from whole maps."""
    generator = torch.Generator().manual_seed(0)
    query = size * torch.randn(1, TILED_HEADS, queries, TILED_CHANNELS, generator=generator)
    key, value = (
        torch.randn(1, TILED_HEADS, TILED_KEYS, TILED_CHANNELS, generator=generator) for _ in range(2)
    )
    logits = query @ key.mT / math.sqrt(TILED_CHANNELS)
    if given.get("bias") is not None:
        logits = logits + given["bias"]
    if given.get("mask") is not None:
        logits = logits.masked_fill(~given["mask"], -1e30)
    if given.get("causal"):
        later = torch.ones(queries, TILED_KEYS, dtype=torch.bool).triu(TILED_KEYS - queries + 1)
        logits = logits.masked_fill(later, -math.inf)
    expected = logits.softmax(-1)
    kept = Kept(queries)
    with torch.inference_mode(), capture(["x"], kept, value_weighted=True, tiles=tiles):
        found = attend(
            query,
            key,
            value,
            score=make_score(AttentionScore.DOT, TILED_HEADS, TILED_CHANNELS),
            site=TILED_SITE,
            **given,
        )
    kept.require_last()
    assert torch.allclose(found, expected @ value, atol=1e-5)
    norms_HQK = expected[0] * value[0].norm(dim=-1)[:, None]
    return kept, expected[0], norms_HQK


@pytest.mark.parametrize("size", [1.0, 200.0])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"causal": True},
        {"causal": True, "queries": 9},
        {"mask": torch.arange(TILED_KEYS) < 17, "queries": 12},
        {"mask": torch.zeros(1, 1, 1, TILED_KEYS, dtype=torch.bool)},
        {
            "bias": torch.linspace(-3, 3, TILED_HEADS * TILED_KEYS).view(TILED_HEADS, 1, TILED_KEYS),
            "causal": True,
        },
    ],
)
def test_tiles_are_the_whole_map(monkeypatch, size, given):
    """Also of logits so large that powers overflow, and of rows without keys."""
    monkeypatch.setattr(operator, "TILE_BYTES", 4 * TILED_KEYS * 5)
    kept, expected_HQK, norms_HQK = attended(MapTiles(), size=size, **given)
    assert torch.allclose(kept.weights_HQK, expected_HQK, atol=1e-5)
    assert torch.allclose(kept.values_HQK, norms_HQK, atol=1e-5)
    assert len(kept.order) > TILED_HEADS
    assert kept.order == sorted(kept.order)


def test_heads_come_in_the_order_asked_for(monkeypatch):
    monkeypatch.setattr(operator, "TILE_BYTES", 4 * TILED_KEYS * 12)
    kept, expected_HQK, _ = attended(MapTiles(heads=(2, 0)))
    assert kept.order == [(2, 0), (2, 12), (0, 0), (0, 12)]
    assert torch.allclose(kept.weights_HQK[[0, 2]], expected_HQK[[0, 2]], atol=1e-5)
    assert kept.weights_HQK[1].isnan().all()
    kept, _, _ = attended(MapTiles(heads=(2, 0), queries_first=True))
    assert kept.order == [(2, 0), (0, 0), (2, 12), (0, 12)]
