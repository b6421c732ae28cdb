"""Checks of the maps of a promoter model: similarity between treatments, promoters, seeds and random weights; and
whether they point at bases that predictions depend on, by deletion, insertion and mutagenesis.

Shape suffixes: B promoters, T treatments, L bases, A the four bases, P bins; N pairs.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

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
)
from bioattn.checks.promoters import (
    ONE_TREATMENT,
    OTHER_PROMOTERS,
    OTHER_TREATMENTS,
    POINTING,
    TOP,
    PromoterProbe,
    key_edges,
    known_bins,
    predict,
    read_maps,
)
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import dinucleotide_shuffled
from bioattn.inference.runner import Codes, Floats, Predictor, ResponseRunner
from bioattn.interpret.attribution import Mutagenesis, contributions
from bioattn.interpret.position_maps import bin_sums
from bioattn.interpret.promoter_maps import PromoterMaps
from bioattn.promoters.response_metrics import Estimate
from bioattn.system.progress import watched


def mutation_effects(
    probe: PromoterProbe, predictor: Predictor, codes_BL: Codes, edges: tuple[int, ...]
) -> Floats:
    """Effects (B, T, P): absolute change of the prediction, mean over the other bases, sum over the bin's bases.

    Both directions count alike.
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


def check_pointing(probe: PromoterProbe, maps: PromoterMaps, *, curves: bool = True) -> None:
    """Add the effects of deleting and inserting the bins of largest size. curves: also those of other shares."""
    settings, codes_BL = probe.settings, probe.codes
    edges = tuple(maps.key_edges.tolist())
    known_BP = known_bins(codes_BL, edges)
    sizes_BTP = np.abs(maps.block(slice(None))[:, probe.probed])
    probed = probe.predictor.chosen(probe.probed)
    pairs = pairs_that_stand_out(predict(probed, codes_BL))
    if not len(pairs.sample_N):
        probe.measures.skip("the model says the same of every promoter", "insertion", *POINTING)
        return
    rng = np.random.default_rng([settings.seed, 4])
    replacement = Replacement(
        predictions=partial(predictions_of, probed), codes_BL=codes_BL, known_BP=known_BP, edges=edges
    )
    backgrounds = [dinucleotide_shuffled(codes_BL, rng) for _ in range(settings.backgrounds)]
    neighbour_N = (pairs.sample_N + 1) % len(codes_BL)
    own_NP, other_NP = (sizes_BTP[rows, pairs.task_N] for rows in (pairs.sample_N, neighbour_N))
    scores = {"own": own_NP, "other promoter": other_NP}
    effects = measure_effects(probe, replacement, pairs, scores, backgrounds, curves=curves)
    top, own = TOP[maps.quantity], effects.percent("own")
    probe.add(
        "deletion",
        f"deletion: {top}, beyond a random tenth",
        effects.share_gained("own", "random"),
        f"Replacing the {top} of a promoter by background takes away {own} of what sets its "
        f"prediction apart, a random tenth {effects.percent('random')}.",
        thresholds.POINTED,
    )
    probe.add(
        OTHER_PROMOTERS,
        "deletion: own map, beyond another promoter's",
        effects.share_gained("own", "other promoter"),
        "What the map of another promoter points at under the same treatment takes away "
        f"{effects.percent('other promoter')}, what its own does {own}.",
        thresholds.OWN_MAP,
    )
    if curves:
        probe.curves = effects.curves()
        inserted, chance = f"insertion own {JUDGED}", f"insertion random {JUDGED}"
        probe.add(
            "insertion",
            "insertion: the same tenth put into background",
            effects.share_gained(inserted, chance),
            f"Put into background alone, the {top} brings back {effects.percent(inserted)}, a random tenth "
            f"{effects.percent(chance)}.",
        )
    # Which promoters and treatments are mutated, and what mutating their bins changes.
    rows = np.random.default_rng([settings.seed, 6]).permutation(len(codes_BL))
    rows = np.sort(rows[: settings.num_mutated])
    effects_RTP = mutation_effects(probe, probed, codes_BL[rows], edges)
    mutated = pairs.kept(np.isin(pairs.sample_N, rows))
    row_N, number = np.searchsorted(rows, mutated.sample_N), len(probe.probed)
    scores = {
        "own": sizes_BTP[mutated.sample_N, mutated.task_N],
        "mutagenesis": effects_RTP[row_N, mutated.task_N],
    }
    if number > 1:
        step_N = np.random.default_rng([settings.seed, 5]).integers(1, number, len(row_N))
        other_N = (mutated.task_N + step_N) % number
        scores["other treatment"] = sizes_BTP[mutated.sample_N, other_N]
        scores["mutagenesis of another treatment"] = effects_RTP[row_N, other_N]
    deleted = measure_effects(probe, replacement, mutated, scores, backgrounds)
    probe.add(
        "deletion_against_mutagenesis",
        "deletion: what maps find of what mutagenesis finds",
        deleted.recovered("own", "mutagenesis"),
        f"Of what the tenth chosen by in-silico mutagenesis takes away beyond a random tenth "
        f"({deleted.percent('mutagenesis', 'random')}), the {top} takes away {{share}}.",
        thresholds.FOUND,
    )
    _judge_other_treatments(probe, deleted)


def _judge_other_treatments(probe: PromoterProbe, effects: Effects) -> None:
    """Add how much more a treatment's map finds than another's, beside mutagenesis: treatments share biology."""
    moved = effects.moved
    if "other treatment" not in moved:
        probe.measures.skip(ONE_TREATMENT, OTHER_TREATMENTS)
        return
    best, other = "mutagenesis", "mutagenesis of another treatment"
    if not effects.value(best) - effects.value(other) >= thresholds.TOLD_APART:
        why = "by mutagenesis of the model, too, another treatment's tenth takes away as much"
        probe.measures.skip(why, OTHER_TREATMENTS)
        return
    gained, most = effects.percent("own", "other treatment"), effects.percent(best, other)
    probe.add(
        OTHER_TREATMENTS,
        "deletion: own map beyond another treatment's, of what mutagenesis finds",
        effects.ratio(moved["own"] - moved["other treatment"], moved[best] - moved[other]),
        f"The tenth of a treatment's own map takes away {gained} more than that of another treatment's; by "
        f"mutagenesis it is {most}.",
        thresholds.OWN_OF_MUTAGENESIS,
    )


def check_maps(probe: PromoterProbe, maps: PromoterMaps) -> None:
    """Add entropy, and similarity of maps to those of random weights and of other seeds."""
    measures = probe.measures
    measures.add_entropy([head.entropy for head in probe.heads])
    values_BTP = maps.block(slice(None))
    known_BP = known_bins(probe.codes, tuple(maps.key_edges.tolist()))

    def similarity(others: Sequence[ResponseRunner]) -> Estimate:
        """Spearman correlation with maps of other models, with the signs of contributions, mean over all."""
        alike = []
        for other in others:
            predictor = other.predictor(probe.model.treatments.select(probe.names))
            if other.length != probe.model.length or key_edges(predictor) != tuple(maps.key_edges):
                raise BioattnError(
                    "--other-model: sees other windows or bins than MODEL; maps can be compared over the same "
                    "bins only"
                )
            theirs = read_maps(predictor, probe.codes, weights=not maps.signed)
            if theirs.quantity is not maps.quantity:
                raise BioattnError(
                    "--other-model: has no contributions, as MODEL has; compare attention with --weights"
                )
            alike.append(map_spearman(values_BTP, theirs.block(slice(None)), known_BP))
        return probe.mean(mean_ignoring_nan(np.stack(alike), axis=0))

    alike = similarity([probe.untrained])
    measures.add(
        "randomised_weights",
        "similarity to maps of random weights",
        alike,
        f"Maps of the same model with random weights are {_alike(alike.value)} these: what the maps show "
        f"{'was learned' if alike.value <= thresholds.RANDOMISED else 'comes of the architecture'}.",
        most=thresholds.RANDOMISED,
    )
    others = [*probe.evidence.other_models, *probe.retrained["seed"]]
    if not others:
        measures.skip("needs the same model of another seed: --controls, or --other-model", "seed_stability")
        return
    alike = similarity(others)
    steady = alike.value >= thresholds.STABLE
    probe.add(
        "seed_stability",
        "similarity to maps of another seed",
        alike,
        f"Maps of another seed are {_alike(alike.value)} these"
        + ("." if steady else ": what a single map shows may be chance of training."),
        thresholds.STABLE,
    )


def _alike(spearman: float) -> str:
    """A phrase such as `unlike (Spearman 0.03)`."""
    if math.isnan(spearman):
        return "as flat as"
    words = "like" if spearman >= 0.7 else "somewhat like" if spearman >= 0.3 else "unlike"
    return f"{words} (Spearman {spearman:.2f})"
