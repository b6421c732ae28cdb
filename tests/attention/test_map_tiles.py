"""Weights handed over in tiles of one head's queries, against a softmax of whole maps."""

import math

import pytest
import torch

from bioattn.attention import operator
from bioattn.attention.capture import capture
from bioattn.attention.operator import attend
from bioattn.attention.score import make_score
from bioattn.attention.site import AttentionSite, Axis, MapTiles
from bioattn.choices import AttentionScore

SITE = AttentionSite(
    name="x", axes=tuple(Axis(name) for name in ("sample", "head", "query", "key")), heads=(0, 1, 2)
)
HEADS, KEYS, CHANNELS = 3, 23, 4


class Kept:
    """Puts tiles together again."""

    def __init__(self, queries):
        self.weights_HQK = torch.full((HEADS, queries, KEYS), torch.nan)
        self.values_HQK = torch.full((HEADS, queries, KEYS), torch.nan)
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


def attended(tiles, *, queries=KEYS, size=1.0, **given):
    """What is attended, what was handed over, and both from whole maps."""
    generator = torch.Generator().manual_seed(0)
    query = size * torch.randn(1, HEADS, queries, CHANNELS, generator=generator)
    key, value = (torch.randn(1, HEADS, KEYS, CHANNELS, generator=generator) for _ in range(2))
    logits = query @ key.mT / math.sqrt(CHANNELS)
    if given.get("bias") is not None:
        logits = logits + given["bias"]
    if given.get("mask") is not None:
        logits = logits.masked_fill(~given["mask"], -1e30)
    if given.get("causal"):
        later = torch.ones(queries, KEYS, dtype=torch.bool).triu(KEYS - queries + 1)
        logits = logits.masked_fill(later, -math.inf)
    expected = logits.softmax(-1)
    kept = Kept(queries)
    with torch.inference_mode(), capture(["x"], kept, value_weighted=True, tiles=tiles):
        found = attend(
            query, key, value, score=make_score(AttentionScore.DOT, HEADS, CHANNELS), site=SITE, **given
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
        {"mask": torch.arange(KEYS) < 17, "queries": 12},
        {"mask": torch.zeros(1, 1, 1, KEYS, dtype=torch.bool)},
        {"bias": torch.linspace(-3, 3, HEADS * KEYS).view(HEADS, 1, KEYS), "causal": True},
    ],
)
def test_tiles_are_the_whole_map(monkeypatch, size, given):
    """Also of logits so large that powers overflow, and of rows without keys."""
    monkeypatch.setattr(operator, "TILE_BYTES", 4 * KEYS * 5)
    kept, expected_HQK, norms_HQK = attended(MapTiles(), size=size, **given)
    assert torch.allclose(kept.weights_HQK, expected_HQK, atol=1e-5)
    assert torch.allclose(kept.values_HQK, norms_HQK, atol=1e-5)
    assert len(kept.order) > HEADS
    assert kept.order == sorted(kept.order)


def test_heads_come_in_the_order_asked_for(monkeypatch):
    monkeypatch.setattr(operator, "TILE_BYTES", 4 * KEYS * 12)
    kept, expected_HQK, _ = attended(MapTiles(heads=(2, 0)))
    assert kept.order == [(2, 0), (2, 12), (0, 0), (0, 12)]
    assert torch.allclose(kept.weights_HQK[[0, 2]], expected_HQK[[0, 2]], atol=1e-5)
    assert kept.weights_HQK[1].isnan().all()
    kept, _, _ = attended(MapTiles(heads=(2, 0), queries_first=True))
    assert kept.order == [(2, 0), (0, 0), (2, 12), (0, 12)]
