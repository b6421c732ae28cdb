"""Similarity of attention maps between treatments, promoters, seeds and random weights.

Shape suffixes: B promoters, T treatments, P bins.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.checks import thresholds
from bioattn.checks.deletion import JUDGED
from bioattn.checks.measures import percent
from bioattn.checks.promoters import ONE_TREATMENT, AttentionMaps, PromoterProbe, key_edges, read_maps
from bioattn.checks.similarity import map_spearman, mean_ignoring_nan, top_overlap
from bioattn.errors import BioattnError
from bioattn.inference.runner import Floats, ResponseRunner
from bioattn.promoters.response_metrics import Estimate


def check_maps(probe: PromoterProbe, maps: AttentionMaps) -> None:
    """Add entropy, and similarity of maps between treatments, to random weights and to other seeds."""
    measures = probe.measures
    measures.add_entropy([head.entropy for head in maps.heads])
    random_BTP = _maps_of(probe, maps, probe.untrained)
    estimate = _similarity(probe, maps, [random_BTP])
    measures.add(
        "randomised_weights",
        "similarity to maps of random weights",
        estimate,
        f"Maps of the same model with random weights are {_alike(estimate.value)} these: what the maps show "
        f"{'was learned' if estimate.value <= thresholds.RANDOMISED else 'comes of the architecture'}.",
        most=thresholds.RANDOMISED,
    )
    # What neighbouring promoters share under the same treatment follows from position alone.
    alike = _similarity(probe, maps, [np.roll(maps.mean_BTP, 1, axis=0)])
    probe.add(
        "other_promoters_maps",
        "similarity to other promoters' maps",
        alike,
        f"Maps of two promoters under the same treatment are {_alike(alike.value)} each other.",
    )
    _check_stability(probe, maps, _between_treatments(probe, maps))


def _between_treatments(probe: PromoterProbe, maps: AttentionMaps) -> Floats | None:
    """Share (B, T) of a map's top tenth of bins that other treatments share; None with one treatment."""
    number = len(probe.names)
    if number == 1:
        probe.measures.skip(ONE_TREATMENT, "other_treatments_maps")
        return None
    others = [
        np.roll(maps.mean_BTP, step, axis=1)
        for step in range(1, min(probe.settings.exchanges, number - 1) + 1)
    ]
    alike = _similarity(probe, maps, others)
    probe.add(
        "other_treatments_maps",
        "similarity to other treatments' maps",
        alike,
        f"Maps of two treatments over the same promoter are {_alike(alike.value)} each other.",
    )
    return _shared_tops(maps, others)


def _check_stability(probe: PromoterProbe, maps: AttentionMaps, between_BT: Floats | None) -> None:
    others = [*probe.evidence.other_models, *probe.retrained["seed"]]
    if not others:
        why = "needs the same model of another seed: --controls, or --other-model"
        probe.measures.skip(why, "seed_stability")
        return
    maps_of_others = [_maps_of(probe, maps, other) for other in others]
    alike = _similarity(probe, maps, maps_of_others)
    steady = alike.value >= thresholds.STABLE
    probe.add(
        "seed_stability",
        "similarity to maps of another seed",
        alike,
        f"Maps of another seed are {_alike(alike.value)} these"
        + ("." if steady else ": what a single map shows may be chance of training."),
        thresholds.STABLE,
    )
    shared_BT = _shared_tops(maps, maps_of_others)
    shared = probe.mean(shared_BT)
    probe.add(
        "seed_overlap",
        "top tenth shared with another seed",
        shared,
        f"Of the most attended tenth, {percent(shared.value)} is most attended by another seed too.",
    )
    if between_BT is not None:
        beyond = probe.mean(shared_BT - between_BT)
        probe.add(
            "specificity_beyond_seed",
            "the same, beyond what other treatments share",
            beyond,
            f"That is {percent(beyond.value)} of it more than another treatment's map shares: treatments "
            f"{'differ' if beyond.value > 0 else 'do not differ'} by more than seeds.",
        )


def _similarity(probe: PromoterProbe, maps: AttentionMaps, others: Sequence[NDArray[np.float32]]) -> Estimate:
    """Spearman correlation of maps with others of the same promoter and treatment, mean over all."""
    each = [map_spearman(maps.mean_BTP, other, maps.known_BP) for other in others]
    return probe.mean(mean_ignoring_nan(np.stack(each), axis=0))


def _shared_tops(maps: AttentionMaps, others: Sequence[NDArray[np.float32]]) -> Floats:
    """Mean over `others` of the share of the top tenth of bins in common, (B, T)."""
    each = [top_overlap(maps.mean_BTP, other, maps.known_BP, JUDGED)[0] for other in others]
    return np.asarray(np.mean(each, axis=0))


def _maps_of(probe: PromoterProbe, maps: AttentionMaps, other: ResponseRunner) -> NDArray[np.float32]:
    """The maps (B, T, P) of another model of the same promoters and treatments."""
    predictor = other.predictor(probe.model.treatments.select(probe.names))
    if other.length != probe.model.length or key_edges(predictor) != maps.edges:
        raise BioattnError(
            "--other-model: sees other windows or bins than MODEL; maps can be compared over the same bins only"
        )
    return read_maps(predictor, probe.codes).mean_BTP


def _alike(spearman: float) -> str:
    """A phrase such as `unlike (Spearman 0.03)`."""
    if math.isnan(spearman):
        return "as flat as"
    words = "like" if spearman >= 0.7 else "somewhat like" if spearman >= 0.3 else "unlike"
    return f"{words} (Spearman {spearman:.2f})"
