"""Where attention heads look, in figures and in a word: how far, how spread out, at which neighbour, at a copy.

Every head has an entropy. The other figures are shares of attention by distance from query to key, so they are
known where both are places of one kind (tokens, residues, bins), and the slope where they are of two.

Shape suffixes: H heads, Q queries, K keys.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.inference.runner import CopyScorer, Head, HeadScorer

LOCAL = 5
"""A key at most so many places from the query is near it."""
FIGURES = ("entropy", "distance", "local", "previous", "itself", "next", "first", "induction", "slope")
"""Means over queries: entropy of the weights over that of uniform ones; |key − query|; and shares of attention: on
keys at most `LOCAL` places away, on the place before the query, the query's own, the one behind it, and the first
of all; and, of a sequence given twice, on the place in the other copy that tells what is to be predicted. `slope`
of attention to another sequence: of the mean attended place on the query's (least squares), each from 0 to 1."""
_OFFSETS = {"previous": -1, "itself": 0, "next": 1}
INDUCTION, MOST, UNIFORM = 0.3, 0.5, 0.97
"""Least induction, least share of attention and least entropy for a name."""


@dataclass(slots=True)
class _Sums:
    """Sums over queries, (H,) each."""

    queries: float
    figures: dict[str, Tensor]
    near: float = math.nan
    """What `local` would sum to with uniform weights."""


class _Meter:
    """An `AttentionReceiver` that adds up figures of every head, pass by pass."""

    def __init__(self) -> None:
        self.sums: dict[str, _Sums] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        weights = weights.movedim(site.dims.index("head") - len(site.dims), 0)
        has_queries = "query" in site.dims
        outer = tuple(range(1, weights.dim() - (2 if has_queries else 1)))
        visible = (weights > 0).any(0)
        if has_queries:
            # Weights may vanish by rounding; what no query attends behind itself is hidden from it.
            visible = torch.ones_like(weights[(0,) * (weights.dim() - 2)])
            if _same_places(site) and not bool(weights.triu(1).any()):
                visible = visible.tril()
        keys = visible.sum(-1)
        nats = -torch.special.xlogy(weights, weights).sum(-1)
        entropy = torch.where(keys > 1, nats / keys.clamp(min=2).log(), torch.ones_like(nats))
        found = {"entropy": entropy.flatten(1).mean(1)}
        near = math.nan
        if has_queries:
            mean_HQK = weights.sum(outer) if outer else weights
            mean_HQK = mean_HQK / mean_HQK.sum(-1, keepdim=True).clamp(min=1e-12)
            place = torch.arange(mean_HQK.shape[-1], device=weights.device)
            query = torch.arange(mean_HQK.shape[-2], device=weights.device)
        if _two_sequences(site):
            first, total = (0, len(query)) if tile is None else (tile.start, tile.total)
            from_middle = query + first - (total - 1) / 2
            product = (from_middle * (mean_HQK @ place.float())).mean(-1)
            found["slope"] = 12 * product / ((total + 1) * max(1, len(place) - 1))
        if has_queries and _same_places(site):
            offset_QK = place - query[:, None]
            local_QK = (offset_QK.abs() <= LOCAL).float()
            found["distance"] = (mean_HQK * offset_QK.abs()).sum((1, 2)) / len(offset_QK)
            found["local"] = (mean_HQK * local_QK).sum((1, 2)) / len(offset_QK)
            found["first"] = mean_HQK[:, :, 0].mean(1)
            for name, step in _OFFSETS.items():
                found[name] = (mean_HQK * (offset_QK == step)).sum((1, 2)) / len(offset_QK)
            near = float(((visible * local_QK).sum(-1) / keys.clamp(min=1)).mean())
        queries = float(entropy[0].numel())
        sums = self.sums.setdefault(
            site.name,
            _Sums(0.0, {name: torch.zeros(site.num_heads, dtype=torch.float64) for name in found}, 0.0),
        )
        sums.queries += queries
        sums.near += near * queries
        for name, value_H in found.items():
            sums.figures[name] += value_H.double().cpu() * queries


class _CopyMeter:
    """An `AttentionReceiver` that adds up what the given queries attend to the given keys."""

    def __init__(self) -> None:
        self.places: tuple[Tensor, Tensor] = (torch.zeros(0), torch.zeros(0))
        self.sums: dict[str, _Sums] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        queries, keys = self.places
        chosen_BHN = weights[..., queries, keys]
        sums = self.sums.setdefault(
            site.name, _Sums(0.0, {"induction": torch.zeros(site.num_heads).double()})
        )
        sums.queries += 1
        sums.figures["induction"] += chosen_BHN.mean((0, 2)).double().cpu()


def head_patterns(scorer: HeadScorer) -> dict[Head, dict[str, float]]:
    """`FIGURES` of every head of a scorer's data, and its `name`; NaN where a figure is not known."""
    meter, copies = _Meter(), _CopyMeter()
    names = list(scorer.sites)
    with torch.inference_mode():
        for run in scorer.passes():
            with capture(names, meter):
                run()
        if isinstance(scorer, CopyScorer):
            for run, queries, keys in scorer.copies():
                copies.places = (torch.from_numpy(queries), torch.from_numpy(keys))
                own = [name for name in names if _same_places(scorer.sites[name])]
                with capture(own, copies):
                    run()
    found = {}
    for name, site in scorer.sites.items():
        for place, head in enumerate(site.heads):
            figures = {"near": meter.sums[name].near / meter.sums[name].queries}
            for sums in (meter.sums[name], copies.sums.get(name)):
                if sums is not None:
                    figures |= {key: float(each[place] / sums.queries) for key, each in sums.figures.items()}
            found[name, head] = dict.fromkeys(FIGURES, math.nan) | figures
    return found


def head_name(figures: dict[str, float]) -> str:
    """A head by what it does most; empty for one that does nothing of it."""
    if figures["induction"] >= INDUCTION:
        return "induction"
    if figures["entropy"] >= UNIFORM:
        return "uniform"
    for name in (*_OFFSETS, "first"):
        if figures[name] >= MOST:
            return name
    if abs(figures["slope"]) >= MOST:
        return "monotone" if figures["slope"] > 0 else "reversed"
    if figures["local"] >= (1 + figures["near"]) * MOST:
        return "local"
    return ""


def _same_places(site: AttentionSite) -> bool:
    """Whether queries and keys are places of one kind, so that they have a distance."""
    query, key = site.axis("query"), site.axis("key")
    return query is not None and key is not None and query.kind == key.kind


def _two_sequences(site: AttentionSite) -> bool:
    """Whether queries and keys are places of two sequences, so that one may follow the other."""
    query, key = site.axis("query"), site.axis("key")
    return (
        query is not None
        and key is not None
        and bool(query.lengths and key.lengths)
        and query.kind != key.kind
    )
