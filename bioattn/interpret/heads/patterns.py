"""Where attention heads look, in figures and in a word: how far, how spread out, at which neighbour, at a copy.

Every head has an entropy. The other figures are shares of attention by distance from query to key, so they are
known where both are places of one kind (tokens, residues, bins), and the slope where they are of two.

Shape suffixes: H heads, Q queries, K keys.
"""

import math

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


_Sums = dict[str, dict[str, Tensor]]
"""By site and figure: sums over queries, (H,); under `queries` how many these were."""


def _add(sums: _Sums, site: AttentionSite, means: dict[str, Tensor], queries: float) -> None:
    """Add means over `queries` queries, (H,) or one for all heads."""
    of_site = sums.setdefault(site.name, {})
    for name, mean in (means | {"queries": torch.ones(())}).items():
        total = mean.double().cpu().expand(site.num_heads) * queries
        of_site[name] = of_site[name] + total if name in of_site else total


class _Meter:
    """An `AttentionReceiver` that adds up figures of every head, pass by pass."""

    def __init__(self) -> None:
        self.sums: _Sums = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        weights = weights.movedim(site.dims.index("head") - len(site.dims), 0)
        has_queries = "query" in site.dims
        same, two = _same_kind(site), _two_sequences(site)
        outer = tuple(range(1, weights.dim() - (2 if has_queries else 1)))
        visible = (weights > 0).any(0)
        if has_queries:
            # Weights may vanish by rounding; what no query attends behind itself is hidden from it.
            visible = torch.ones_like(weights[(0,) * (weights.dim() - 2)])
            if same and not bool(weights.triu(1).any()):
                visible = visible.tril()
        keys = visible.sum(-1)
        nats = -torch.special.xlogy(weights, weights).sum(-1)
        entropy = torch.where(keys > 1, nats / keys.clamp(min=2).log(), torch.ones_like(nats))
        means = {"entropy": entropy.flatten(1).mean(1), "near": torch.tensor(math.nan)}
        if has_queries:
            mean_HQK = weights.sum(outer) if outer else weights
            mean_HQK = mean_HQK / mean_HQK.sum(-1, keepdim=True).clamp(min=1e-12)
            key_K = torch.arange(mean_HQK.shape[-1], device=weights.device)
            query_Q = torch.arange(mean_HQK.shape[-2], device=weights.device)
        if two:
            first, total = (0, len(query_Q)) if tile is None else (tile.start, tile.total)
            from_middle = query_Q + first - (total - 1) / 2
            product = (from_middle * (mean_HQK @ key_K.float())).mean(-1)
            means["slope"] = 12 * product / ((total + 1) * max(1, len(key_K) - 1))
        if has_queries and same:
            offset_QK = key_K - query_Q[:, None]
            local_QK = (offset_QK.abs() <= LOCAL).float()
            parts = {"distance": offset_QK.abs(), "local": local_QK}
            parts |= {name: offset_QK == step for name, step in _OFFSETS.items()}
            for name, part_QK in parts.items():
                means[name] = (mean_HQK * part_QK).sum((1, 2)) / len(offset_QK)
            means["first"] = mean_HQK[:, :, 0].mean(1)
            means["near"] = ((visible * local_QK).sum(-1) / keys.clamp(min=1)).mean()
        _add(self.sums, site, means, float(entropy[0].numel()))


class _CopyMeter:
    """An `AttentionReceiver` that adds up what the given queries attend to the given keys."""

    def __init__(self) -> None:
        self.queries, self.keys = torch.zeros(0), torch.zeros(0)
        self.sums: _Sums = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        chosen_BHN = weights[..., self.queries, self.keys]
        _add(self.sums, site, {"induction": chosen_BHN.mean((0, 2))}, 1.0)


def head_patterns(scorer: HeadScorer) -> dict[Head, dict[str, float]]:
    """`FIGURES` and `near` (`local` of uniform weights) of every head of a scorer's data; NaN = not known."""
    meter, copies = _Meter(), _CopyMeter()
    names = list(scorer.sites)
    with torch.inference_mode():
        for run in scorer.passes():
            with capture(names, meter):
                run()
        if isinstance(scorer, CopyScorer):
            with_distance = [name for name in names if _same_kind(scorer.sites[name])]
            for run, queries, keys in scorer.copies():
                copies.queries, copies.keys = torch.from_numpy(queries), torch.from_numpy(keys)
                with capture(with_distance, copies):
                    run()
    patterns = {}
    for name, site in scorer.sites.items():
        for place, head in enumerate(site.heads):
            figures = dict.fromkeys(FIGURES, math.nan)
            for sums in (meter.sums[name], copies.sums.get(name, {})):
                figures |= {
                    key: float(total[place] / sums["queries"][place])
                    for key, total in sums.items()
                    if key != "queries"
                }
            patterns[name, head] = figures
    return patterns


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


def _same_kind(site: AttentionSite) -> bool:
    """Whether queries and keys are places of one kind, so that they have a distance."""
    query, key = site.axis("query"), site.axis("key")
    return query is not None and key is not None and query.kind == key.kind


def _two_sequences(site: AttentionSite) -> bool:
    """Whether queries and keys are places of two sequences, so that one may follow the other."""
    query, key = site.axis("query"), site.axis("key")
    return (
        query is not None and key is not None and bool(query.lengths and key.lengths) and not _same_kind(site)
    )
