"""Checks of the maps of a promoter model: similarity between treatments, promoters, seeds and random weights; and
whether they point at bases that predictions depend on, by deletion, insertion and mutagenesis.

Shape suffixes: B promoters, T treatments, L bases, A the four bases, P bins; N pairs.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bioattn.checks import thresholds
from bioattn.checks.deletion import (
    JUDGED,
    Effects,
    Pairs,
    Replacement,
    map_spearman,
    mean_ignoring_nan,
    measure_effects,
    pairs_that_stand_out,
    top_overlap,
)
from bioattn.checks.measures import percent
from bioattn.checks.promoters import (
    ONE_TREATMENT,
    OTHER_PROMOTERS,
    OTHER_TREATMENTS,
    POINTING,
    AttentionMaps,
    PromoterProbe,
    key_edges,
    predict,
    read_maps,
)
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import dinucleotide_shuffled
from bioattn.inference.runner import Codes, Floats, Predictor, ResponseRunner
from bioattn.interpret.attribution import Mutagenesis, contributions
from bioattn.interpret.position_maps import bin_sums
from bioattn.promoters.response_metrics import Estimate
from bioattn.system.progress import watched


def mutation_effects(
    probe: PromoterProbe, predictor: Predictor, codes_BL: Codes, edges: tuple[int, ...]
) -> Floats:
    """Effects (B, T, P): absolute change of the prediction, mean over the other bases, sum over the bin's bases.

    Attention has no sign, so both directions count alike.
    """
    mutagenesis = Mutagenesis(predictor)
    effects = []
    for codes_1L in watched(probe.progress, "in-silico mutagenesis", list(codes_BL[:, None])):
        probe.stop.check()
        values_1TLA = mutagenesis(codes_1L).values_BTLA
        present_1TL = contributions(values_1TLA, codes_1L)
        moved_1TL = np.abs(values_1TLA - present_1TL[..., None]).sum(-1) / 3
        moved_1TL = np.where(codes_1L[:, None] < 4, moved_1TL, 0.0)
        effects.append(bin_sums(moved_1TL, edges))
    return np.concatenate(effects)


def predictions_of(predictor: Predictor, pairs: Pairs, codes_NL: Codes) -> Floats:
    """(N,) each sequence under the treatment of its pair, a number among those that `predictor` is asked for."""
    answer_N = np.empty(len(codes_NL))
    for treatment in np.unique(pairs.task_N):
        rows = np.flatnonzero(pairs.task_N == treatment)
        answer_N[rows] = predict(predictor.chosen([int(treatment)]), codes_NL[rows])[:, 0]
    return answer_N


def check_pointing(probe: PromoterProbe, maps: AttentionMaps) -> None:
    """Add the effects of deleting and inserting attended bins."""
    settings, codes_BL = probe.settings, probe.codes
    probed = probe.predictor.chosen(probe.probed)
    pairs = pairs_that_stand_out(predict(probed, codes_BL))
    if not len(pairs.sample_N):
        probe.measures.skip("the model says the same of every promoter", "insertion", *POINTING)
        return
    rng = np.random.default_rng([settings.seed, 4])
    replacement = Replacement(
        predictions=partial(predictions_of, probed),
        codes_BL=codes_BL,
        known_BP=maps.known_BP,
        edges=maps.edges,
    )
    backgrounds = [dinucleotide_shuffled(codes_BL, rng) for _ in range(settings.backgrounds)]
    probed_BTP = maps.mean_BTP[:, probe.probed].astype(np.float64)
    scores = {"own": probed_BTP[pairs.sample_N, pairs.task_N]}
    neighbour_N = (pairs.sample_N + 1) % len(codes_BL)
    scores["other promoter"] = probed_BTP[neighbour_N, pairs.task_N]
    if len(probe.names) > 1:
        number = len(probe.names)
        step_N = np.random.default_rng([settings.seed, 5]).integers(1, number, len(pairs.sample_N))
        other_N = (np.asarray(probe.probed)[pairs.task_N] + step_N) % number
        scores["other treatment"] = maps.mean_BTP[pairs.sample_N, other_N].astype(np.float64)
    effects = measure_effects(probe, replacement, pairs, scores, backgrounds, curves=True)
    probe.curves = effects.curves()
    _judge_deletion(probe, effects)
    # Which promoters and treatments are mutated, and what mutating their bins changes.
    rows = np.random.default_rng([settings.seed, 6]).permutation(len(codes_BL))
    rows = np.sort(rows[: settings.mutated])
    effects_RTP = mutation_effects(probe, probed, codes_BL[rows], maps.edges)
    mutated = pairs.kept(np.isin(pairs.sample_N, rows))
    maps_NP = probed_BTP[mutated.sample_N, mutated.task_N]
    effects_NP = effects_RTP[np.searchsorted(rows, mutated.sample_N), mutated.task_N]
    scores = {"own": maps_NP, "mutagenesis": effects_NP}
    deleted = measure_effects(probe, replacement, mutated, scores, backgrounds)
    _judge_against_mutagenesis(probe, maps, deleted, maps_NP, effects_NP)


def _judge_deletion(probe: PromoterProbe, effects: Effects) -> None:
    inserted = f"insertion own {JUDGED}", f"insertion random {JUDGED}"
    own = effects.percent("own")
    probe.add(
        "deletion",
        "deletion: most attended tenth, beyond a random tenth",
        effects.share_gained("own", "random"),
        f"Replacing the most attended tenth of a promoter by background takes away {own} of what sets its "
        f"prediction apart, a random tenth {effects.percent('random')}.",
        thresholds.POINTED,
    )
    probe.add(
        "insertion",
        "insertion: the same tenth put into background",
        effects.share_gained(*inserted),
        f"Put into background alone, the most attended tenth brings back {effects.percent(inserted[0])}, a random "
        f"tenth {effects.percent(inserted[1])}.",
    )
    probe.add(
        OTHER_PROMOTERS,
        "deletion: own map, beyond another promoter's",
        effects.share_gained("own", "other promoter"),
        "Where another promoter is attended to most under the same treatment, deletion takes away "
        f"{effects.percent('other promoter')}, where this one is {own}.",
        thresholds.OWN_MAP,
    )
    if "other treatment" not in effects.moved:
        probe.measures.skip(ONE_TREATMENT, OTHER_TREATMENTS)
        return
    probe.add(
        OTHER_TREATMENTS,
        "deletion: own map, beyond another treatment's",
        effects.share_gained("own", "other treatment"),
        f"The tenth that another treatment attends to takes away {effects.percent('other treatment')}, that of "
        f"the treatment itself {own}.",
        thresholds.OWN_MAP,
    )


def _judge_against_mutagenesis(
    probe: PromoterProbe, maps: AttentionMaps, effects: Effects, maps_NP: Floats, effects_NP: Floats
) -> None:
    pairs = effects.pairs
    probe.add(
        "deletion_against_mutagenesis",
        "deletion: what maps find of what mutagenesis finds",
        effects.recovered("own", "mutagenesis"),
        f"Of what the tenth chosen by in-silico mutagenesis takes away beyond a random tenth "
        f"({effects.percent('mutagenesis', 'random')}), the most attended tenth takes away {{share}}.",
        thresholds.FOUND,
    )
    known_NP = maps.known_BP[pairs.sample_N]
    spearman_N = map_spearman(maps_NP[:, None], effects_NP[:, None], known_NP)[:, 0]
    overlap_N1, chance_N = top_overlap(maps_NP[:, None], effects_NP[:, None], known_NP, JUDGED)

    def mean(values_N: Floats) -> Estimate:
        values_BT = np.full((len(probe.ids), len(probe.probed)), np.nan)
        values_BT[pairs.sample_N, pairs.task_N] = values_N
        return probe.mean(values_BT)

    probe.add(
        "mutagenesis_spearman",
        "rank correlation with mutagenesis",
        mean(spearman_N),
        "Over the bins of a promoter, maps and effects of mutations correlate at Spearman {value:.2f}.",
    )
    probe.add(
        "mutagenesis_overlap",
        "top tenth shared with mutagenesis",
        mean(overlap_N1[:, 0]),
        "Of the most attended tenth, {share} is also in the tenth where mutations matter most; chance would give "
        f"{percent(float(chance_N.mean()))}.",
    )


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
