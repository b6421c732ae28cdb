"""Checks whether maps point at bases that predictions depend on: deletion, insertion, mutagenesis."""

from collections.abc import Callable
from functools import partial

import numpy as np

from bioattn.faithfulness import thresholds
from bioattn.faithfulness.maps import AttentionMaps
from bioattn.faithfulness.measures import Measures, percent, rounded
from bioattn.faithfulness.perturbation import (
    FRACTIONS,
    JUDGED,
    Effects,
    Pairs,
    Replacement,
    measure_effects,
    mutation_effects,
    pairs_that_stand_out,
    predictions_of,
)
from bioattn.faithfulness.similarity import map_spearman, top_overlap
from bioattn.faithfulness.subject import ONE_TREATMENT, Subject, predict
from bioattn.inference.runner import Floats
from bioattn.promoters.dinucleotide_shuffle import dinucleotide_shuffled

Curves = dict[str, dict[str, list[float | None]]]


def check_pointing(subject: Subject, maps: AttentionMaps, measures: Measures) -> Curves:
    """Add the effects of deleting and inserting attended bins. Returns the curves."""
    settings, codes_BL = subject.settings, subject.sample.codes
    probed = subject.predictor.chosen(subject.probed)
    pairs = pairs_that_stand_out(predict(probed, codes_BL))
    if not len(pairs.promoter_N):
        for name in ("deletion", "insertion", "deletion_against_mutagenesis"):
            measures.skip(name, "the model says the same of every promoter")
        return {}
    rng = np.random.default_rng([settings.seed, 4])
    effects_of = partial(
        measure_effects,
        Replacement(
            predictions=partial(predictions_of, probed),
            codes_BL=codes_BL,
            known_BP=maps.known_BP,
            edges=maps.edges,
        ),
        backgrounds=[dinucleotide_shuffled(codes_BL, rng) for _ in range(settings.backgrounds)],
        seed=settings.seed,
        progress=subject.progress,
        stop=subject.stop,
    )
    probed_BTP = maps.mean_BTP[:, subject.probed].astype(np.float64)
    scores = {"own": probed_BTP[pairs.promoter_N, pairs.treatment_N]}
    neighbour_N = (pairs.promoter_N + 1) % len(codes_BL)
    scores["other promoter"] = probed_BTP[neighbour_N, pairs.treatment_N]
    if len(subject.names) > 1:
        number = len(subject.names)
        step_N = np.random.default_rng([settings.seed, 5]).integers(1, number, len(pairs.promoter_N))
        other_N = (np.asarray(subject.probed)[pairs.treatment_N] + step_N) % number
        scores["other treatment"] = maps.mean_BTP[pairs.promoter_N, other_N].astype(np.float64)
    effects = effects_of(pairs, scores, curves=["own"])
    _judge_deletion(subject, effects, measures)
    _check_against_mutagenesis(subject, maps, pairs, effects_of, measures)
    return curves(effects)


def _judge_deletion(subject: Subject, effects: Effects, measures: Measures) -> None:
    number = len(subject.sample.ids)
    gained = subject.estimate(effects.share_gained("own", "random", number))
    measures.add(
        "deletion",
        "deletion: most attended tenth, beyond a random tenth",
        gained,
        "Replacing the most attended tenth of a promoter by background takes away "
        f"{percent(effects.value('own'))} of what sets its prediction apart, a random tenth "
        f"{percent(effects.value('random'))}.",
        least=thresholds.POINTED,
    )
    inserted = f"insertion own {JUDGED}", f"insertion random {JUDGED}"
    measures.add(
        "insertion",
        "insertion: the same tenth put into background",
        subject.estimate(effects.share_gained(*inserted, number)),
        f"Put into background alone, the most attended tenth brings back {percent(effects.value(inserted[0]))}, a "
        f"random tenth {percent(effects.value(inserted[1]))}.",
    )
    measures.add(
        "deletion_of_other_promoters",
        "deletion: own map, beyond another promoter's",
        subject.estimate(effects.share_gained("own", "other promoter", number)),
        "Where another promoter is attended to most under the same treatment, deletion takes away "
        f"{percent(effects.value('other promoter'))}, where this one is {percent(effects.value('own'))}.",
        least=thresholds.OWN_MAP,
    )
    if "other treatment" in effects.moved:
        measures.add(
            "deletion_of_other_treatments",
            "deletion: own map, beyond another treatment's",
            subject.estimate(effects.share_gained("own", "other treatment", number)),
            "The tenth that another treatment attends to takes away "
            f"{percent(effects.value('other treatment'))}, that of the treatment itself "
            f"{percent(effects.value('own'))}.",
            least=thresholds.OWN_MAP,
        )
    else:
        measures.skip("deletion_of_other_treatments", ONE_TREATMENT)


def _check_against_mutagenesis(
    subject: Subject,
    maps: AttentionMaps,
    pairs: Pairs,
    effects_of: Callable[[Pairs, dict[str, Floats]], Effects],
    measures: Measures,
) -> None:
    everyone = len(subject.sample.ids)
    rows = np.random.default_rng([subject.settings.seed, 6]).permutation(everyone)
    rows = np.sort(rows[: subject.settings.mutated])
    effects_RTP = mutation_effects(
        subject.predictor.chosen(subject.probed),
        subject.sample.codes[rows],
        maps.edges,
        progress=subject.progress,
        stop=subject.stop,
    )
    place_B = np.full(everyone, -1)
    place_B[rows] = np.arange(len(rows))
    mutated = pairs.kept(place_B[pairs.promoter_N] >= 0)
    place_N = place_B[mutated.promoter_N]
    effects_NP = effects_RTP[place_N, mutated.treatment_N]
    maps_NP = maps.mean_BTP[:, subject.probed][mutated.promoter_N, mutated.treatment_N].astype(np.float64)
    effects = effects_of(mutated, {"own": maps_NP, "mutagenesis": effects_NP})
    found = subject.estimate(effects.recovered("own", "mutagenesis", "random", everyone))
    measures.add(
        "deletion_against_mutagenesis",
        "deletion: what maps find of what mutagenesis finds",
        found,
        f"Of what the tenth chosen by in-silico mutagenesis takes away beyond a random tenth "
        f"({percent(effects.value('mutagenesis') - effects.value('random'))}), the most attended tenth takes away "
        f"{percent(found.value)}.",
        least=thresholds.FOUND,
    )
    known_NP = maps.known_BP[mutated.promoter_N]
    spearman_N = map_spearman(maps_NP[:, None], effects_NP[:, None], known_NP)[:, 0]
    overlap_N1, chance_N = top_overlap(maps_NP[:, None], effects_NP[:, None], known_NP, JUDGED)

    def table(values_N: Floats) -> Floats:
        values_BT = np.full((everyone, len(subject.probed)), np.nan)
        values_BT[mutated.promoter_N, mutated.treatment_N] = values_N
        return values_BT

    agreement = subject.mean(table(spearman_N))
    measures.add(
        "mutagenesis_spearman",
        "rank correlation with mutagenesis",
        agreement,
        f"Over the bins of a promoter, maps and effects of mutations correlate at Spearman {agreement.value:.2f}.",
    )
    overlap, chance = subject.mean(table(overlap_N1[:, 0])), float(chance_N.mean())
    measures.add(
        "mutagenesis_overlap",
        "top tenth shared with mutagenesis",
        overlap,
        f"Of the most attended tenth, {percent(overlap.value)} is also in the tenth where mutations matter most; "
        f"chance would give {percent(chance)}.",
    )


def curves(effects: Effects) -> Curves:
    """Deletion and insertion along the fractions: shares of the whole effect, top bins and random bins."""
    found: Curves = {}
    for way in ("deletion", "insertion"):
        found[way] = {"fraction": [0.0, *FRACTIONS]}
        for label, name in (("top", "own"), ("random", "random")):
            shares = (rounded(effects.value(f"{way} {name} {fraction}")) for fraction in FRACTIONS)
            found[way][label] = [0.0, *shares]
    return found
