"""The attention maps of a model on some promoters, and their checks: entropy, and similarity between treatments,
seeds and random weights.

Shape suffixes: B promoters, T treatments, H heads, P bins.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError
from bioattn.faithfulness import thresholds
from bioattn.faithfulness.measures import Measures, percent, rounded
from bioattn.faithfulness.perturbation import JUDGED
from bioattn.faithfulness.similarity import map_spearman, mean_ignoring_nan, top_overlap
from bioattn.faithfulness.subject import ONE_TREATMENT, Subject, known_bins, map_sites, predict
from bioattn.inference.runner import CheckableRunner, Codes, Floats, Predictor
from bioattn.promoters.response_metrics import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpread:
    """How spread out the maps of one head of one site are."""

    site: str
    head: int
    entropy: float
    """Mean over promoters and treatments of the map's entropy over ln(bins); 1 = uniform, 0 = a single bin."""
    top_weight: float
    """Mean of the largest weight of a map."""
    sink: float
    """Mean weight that goes to the sink; 0 without one."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            name: rounded(getattr(self, name)) for name in ("entropy", "top_weight", "sink")
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMaps:
    """Attention maps of B promoters and T treatments, averaged over heads and sites."""

    mean_BTP: NDArray[np.float32]
    """Mean over heads and sites, as attention is mostly shown."""
    known_BP: NDArray[np.bool_]
    """Bins that hold a base."""
    edges: tuple[int, ...]
    """P + 1 bin edges in bases from the window's first base."""
    heads: list[HeadSpread]


def key_edges(predictor: Predictor) -> tuple[int, ...]:
    """The P + 1 edges of the positions that a checkable model attends to."""
    edges = predictor.runner.sites[map_sites(predictor)[0]].key_edges
    assert edges is not None
    return edges


def read_maps(predictor: Predictor, codes_BL: Codes) -> AttentionMaps:
    """The maps of all promoters × treatments; memory is one map per pair, and the heads of one batch."""
    edges = key_edges(predictor)
    known_BP = known_bins(codes_BL, edges)
    collected = MapSums(known_BP, len(predictor.names))
    sites = map_sites(predictor)
    predict(predictor, codes_BL, capture(sites, collected))
    return AttentionMaps(
        mean_BTP=collected.mean_BTP / np.float32(len(sites)),
        known_BP=known_BP,
        edges=edges,
        heads=collected.spreads(),
    )


class MapSums:
    """A receiver that adds up maps over sites and heads, batch by batch."""

    def __init__(self, known_BP: NDArray[np.bool_], num_treatments: int) -> None:
        self._known_BP = known_BP
        self.mean_BTP = np.zeros((len(known_BP), num_treatments, known_BP.shape[1]), np.float32)
        self._done: dict[str, int] = {}
        self._sums: dict[str, NDArray[np.float64]] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        """Add the weights (B, H, T, P) of one site and batch."""
        first = self._done.get(site.name, 0)
        rows = slice(first, first + len(weights))
        self._done[site.name] = first + len(weights)
        self.mean_BTP[rows] += weights.mean(1).cpu().numpy()
        attended = weights.sum(-1, keepdim=True)
        shares = weights / attended.clamp(min=1e-12)
        bins = torch.from_numpy(self._known_BP[rows].sum(1)).to(weights.device)
        entropy = -torch.special.xlogy(shares, shares).sum(-1) / bins.clamp(min=2).log()[:, None, None]
        figures = torch.stack([entropy, weights.amax(-1), 1 - attended.squeeze(-1)])
        sums = figures.double().sum((1, 3)).cpu().numpy()
        self._sums[site.name] = self._sums.get(site.name, 0.0) + sums

    def spreads(self) -> list[HeadSpread]:
        """Means over all received weights, by site and head."""
        pairs = self.mean_BTP.shape[0] * self.mean_BTP.shape[1]
        return [
            HeadSpread(
                site=site,
                head=head,
                entropy=float(entropy / pairs),
                top_weight=float(top / pairs),
                sink=max(0.0, float(sink / pairs)),
            )
            for site, sums in self._sums.items()
            for head, (entropy, top, sink) in enumerate(sums.T)
        ]


def check_maps(
    subject: Subject, maps: AttentionMaps, others: list[CheckableRunner], measures: Measures
) -> None:
    """Add entropy, and similarity of maps between treatments, to random weights and to `others` (other seeds)."""
    measures.add_entropy([head.entropy for head in maps.heads])
    random_BTP = _maps_of(subject, maps, subject.model.untrained(subject.settings.seed))
    estimate = _similarity(subject, maps, [random_BTP])
    measures.add(
        "randomised_weights",
        "similarity to maps of random weights",
        estimate,
        f"Maps of the same model with random weights are {_alike(estimate.value)} these: what the maps show "
        f"{'was learned' if estimate.value <= thresholds.RANDOMISED else 'comes of the architecture'}.",
        most=thresholds.RANDOMISED,
    )
    # What neighbouring promoters share under the same treatment follows from position alone.
    alike = _similarity(subject, maps, [np.roll(maps.mean_BTP, 1, axis=0)])
    measures.add(
        "other_promoters_maps",
        "similarity to other promoters' maps",
        alike,
        f"Maps of two promoters under the same treatment are {_alike(alike.value)} each other.",
    )
    between = _between_treatments(subject, maps, measures)
    _check_stability(subject, maps, others, between, measures)


def _between_treatments(subject: Subject, maps: AttentionMaps, measures: Measures) -> Floats | None:
    """Share (B, T) of a map's top tenth of bins that other treatments share; None with one treatment."""
    number = len(subject.names)
    if number == 1:
        measures.skip("other_treatments_maps", ONE_TREATMENT)
        return None
    others = [
        np.roll(maps.mean_BTP, step, axis=1)
        for step in range(1, min(subject.settings.exchanges, number - 1) + 1)
    ]
    alike = _similarity(subject, maps, others)
    measures.add(
        "other_treatments_maps",
        "similarity to other treatments' maps",
        alike,
        f"Maps of two treatments over the same promoter are {_alike(alike.value)} each other.",
    )
    return _shared_tops(maps, others)


def _check_stability(
    subject: Subject,
    maps: AttentionMaps,
    others: list[CheckableRunner],
    between_BT: Floats | None,
    measures: Measures,
) -> None:
    if not others:
        measures.skip("seed_stability", "needs the same model of another seed: --controls, or --other-model")
        return
    maps_of_others = [_maps_of(subject, maps, other) for other in others]
    alike = _similarity(subject, maps, maps_of_others)
    steady = alike.value >= thresholds.STABLE
    measures.add(
        "seed_stability",
        "similarity to maps of another seed",
        alike,
        f"Maps of another seed are {_alike(alike.value)} these"
        + ("." if steady else ": what a single map shows may be chance of training."),
        least=thresholds.STABLE,
    )
    shared_BT = _shared_tops(maps, maps_of_others)
    shared = subject.mean(shared_BT)
    measures.add(
        "seed_overlap",
        "top tenth shared with another seed",
        shared,
        f"Of the most attended tenth, {percent(shared.value)} is most attended by another seed too.",
    )
    if between_BT is not None:
        beyond = subject.mean(shared_BT - between_BT)
        measures.add(
            "specificity_beyond_seed",
            "the same, beyond what other treatments share",
            beyond,
            f"That is {percent(beyond.value)} of it more than another treatment's map shares: treatments "
            f"{'differ' if beyond.value > 0 else 'do not differ'} by more than seeds.",
        )


def _similarity(subject: Subject, maps: AttentionMaps, others: Sequence[NDArray[np.float32]]) -> Estimate:
    """Spearman correlation of maps with others of the same promoter and treatment, mean over all."""
    each = [map_spearman(maps.mean_BTP, other, maps.known_BP) for other in others]
    return subject.mean(mean_ignoring_nan(np.stack(each), axis=0))


def _shared_tops(maps: AttentionMaps, others: Sequence[NDArray[np.float32]]) -> Floats:
    """Mean over `others` of the share of the top tenth of bins in common, (B, T)."""
    each = [top_overlap(maps.mean_BTP, other, maps.known_BP, JUDGED)[0] for other in others]
    return np.asarray(np.mean(each, axis=0))


def _maps_of(subject: Subject, maps: AttentionMaps, other: CheckableRunner) -> NDArray[np.float32]:
    """The maps (B, T, P) of another model of the same promoters and treatments."""
    other.require_checkable()
    predictor = other.predictor(subject.model.treatments.select(subject.names))
    if other.length != subject.model.length or key_edges(predictor) != maps.edges:
        raise BioattnError(
            "--other-model: sees other windows or bins than MODEL; maps can be compared over the same bins only"
        )
    return read_maps(predictor, subject.sample.codes).mean_BTP


def _alike(spearman: float) -> str:
    """A phrase such as `unlike (Spearman 0.03)`."""
    if math.isnan(spearman):
        return "as flat as"
    words = "like" if spearman >= 0.7 else "somewhat like" if spearman >= 0.3 else "unlike"
    return f"{words} (Spearman {spearman:.2f})"
