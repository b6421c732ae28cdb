"""From measures to a verdict in plain words.

Each question presupposes the one before. A model that predicts nothing has no meaningful maps; maps that are not
needed explain nothing; maps that follow from position alone, or point elsewhere, mislead; only then does it matter
whether maps belong to their treatment.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from bioattn.faithfulness import thresholds
from bioattn.faithfulness.measures import Measures, percent


class Code(StrEnum):
    """Codes of the verdicts on a model's attention."""

    SPECIFIC = "used-treatment-specific"
    NOT_SPECIFIC = "used-not-treatment-specific"
    USED = "used"
    """Attention was needed and points; the model has a single treatment."""
    NOT_USED = "not-used"
    UNDECIDED = "undecided"
    """Uniform attention, retrained, does worse, but not by more than chance could explain."""
    POSITION_ONLY = "position-only"
    """The maps of another promoter point as well as the own."""
    NOT_PAIR_SPECIFIC = "not-pair-specific"
    """The weights of another residue of an alignment do as well."""
    UNFAITHFUL = "unfaithful"
    NOT_PREDICTIVE = "model-not-predictive"
    FAITHFUL_SPECIFIC = "faithful-treatment-specific"
    """The maps are faithful and treatment-specific; whether attention was needed was not tested."""
    FAITHFUL_NOT_SPECIFIC = "faithful-not-treatment-specific"
    FAITHFUL = "faithful"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict, its caveats, and the names of the measures it rests on."""

    code: Code
    sentence: str
    caveats: list[str]
    rests_on: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"code": str(self.code)}


PREDICTIVE = ("skill", "recorded_skill")
POINTING = ("deletion", "deletion_against_mutagenesis")
OTHER_PROMOTERS = "deletion_of_other_promoters"
SPECIFIC = ("swapped_skill", "swapped_predictions")
"""Measures of treatment-specificity; the first that exists decides."""
CHEATS = {
    "swapped_shapes": "treatments differ in how much they attend, not in where: where another does would do",
    "mean_shapes": "where a treatment attends does not hang on the promoter: its mean over promoters would do",
}
"""Measures, named as the deciding one, that must pass too: what it means when one does not."""
CONTROLS = {
    "shared": "One query shared by all treatments, retrained, predicts as well: queries of their own were not "
    "needed to predict so well.",
    "gain": "One shape for all treatments, retrained with gains of their own, predicts as well: that treatments "
    "attend to different places was not needed to predict so well.",
    "position": "Own position biases alone, retrained, predict as well: that maps follow the sequence was not "
    "needed to predict so well.",
    "query": "Own queries and one position bias, retrained, predict as well: own position biases were not needed "
    "to predict so well.",
}
"""Caveats where a retrained control predicts as well."""


def judge(measures: Measures) -> Verdict:
    predictive = _first(measures, PREDICTIVE)
    if predictive is not None and not measures.passed(predictive):
        return Verdict(Code.NOT_PREDICTIVE, _too_little(measures, predictive), [], [predictive])
    rests_on = [] if predictive is None else [predictive]
    caveats = _caveats(measures, predictive)
    used = measures.passed("uniform_retrained")
    if used is False:
        return _not_used(measures, rests_on, caveats)
    if used:
        rests_on.append("uniform_retrained")
    if measures.passed("deletion") and measures.passed(OTHER_PROMOTERS) is False:
        return Verdict(
            Code.POSITION_ONLY,
            ("Attention is used, but the" if used else "The")
            + " maps say where along a promoter the model looks, not at which sequence: deleting what another "
            "promoter's map points at takes away as much.",
            caveats,
            [*rests_on, "deletion", OTHER_PROMOTERS],
        )
    failed = [name for name in POINTING if measures.passed(name) is not True]
    rests_on += [name for name in POINTING if name in measures]
    if failed:
        return Verdict(
            Code.UNFAITHFUL,
            ("Attention is used, but the maps do" if used else "The maps do")
            + " not point at what the predictions depend on: deleting the most attended tenth of a promoter takes "
            f"away {percent(measures.value('deletion'))} of what the model says of it beyond a random tenth, "
            f"{percent(measures.value('deletion_against_mutagenesis'))} of what the right tenth would.",
            caveats,
            rests_on,
        )
    return _specific(measures, used, rests_on, caveats)


def _too_little(measures: Measures, predictive: str) -> str:
    """The sentence on a model whose skill fails: it predicts nothing only where the interval holds 0."""
    measure = measures.get(predictive)
    assert measure is not None
    interval = measure.interval
    if interval is not None and interval[0] <= 0 <= interval[1]:
        return "The model predicts nothing on genes it was not trained on, so its attention explains nothing."
    between = "" if interval is None else f", 95 % interval {interval[0]:.2f} to {interval[1]:.2f}"
    skill = f"a skill of {measure.value:.2f}{between}; {thresholds.SKILL:g} or more is needed"
    new = "on genes it was not trained on"
    if measure.value < 0:
        return f"The model predicts the wrong way {new} ({skill}), so its attention explains nothing."
    return f"The model predicts too little {new} for its attention to be judged ({skill})."


def _not_used(measures: Measures, rests_on: list[str], caveats: list[str]) -> Verdict:
    lost, own = measures.value("uniform_retrained"), measures.value("skill")
    rests_on = [*rests_on, "uniform_retrained"]
    reached = f"reaches a skill of {own * (1 - lost):.2f}, this model {own:.2f}"
    if lost >= thresholds.USED:
        sentence = (
            f"Whether attention is used cannot be told: uniform attention, retrained, {reached}, "
            "which may be chance."
        )
        return Verdict(Code.UNDECIDED, sentence, caveats, rests_on)
    sentence = (
        f"Attention is not used to any gain: uniform attention, retrained, predicts as well ({reached})."
    )
    pointing = (*POINTING, OTHER_PROMOTERS)
    if all(measures.passed(name) for name in pointing):
        sentence += (
            " As it was trained this model does rely on it, and the maps point at what its own predictions "
            "depend on."
        )
        return Verdict(Code.NOT_USED, sentence, caveats, [*rests_on, *pointing])
    return Verdict(Code.NOT_USED, f"{sentence} The maps explain nothing.", caveats, rests_on)


def _specific(measures: Measures, used: bool | None, rests_on: list[str], caveats: list[str]) -> Verdict:
    needed = "Attention is used" if used else "The maps point at what the predictions depend on"
    pointing = ", the maps point at what the predictions depend on" if used else ""
    deciding = _first(measures, SPECIFIC)
    if deciding is None:
        return Verdict(Code.USED if used else Code.FAITHFUL, f"{needed}{pointing}.", caveats, rests_on)
    kind = deciding.removeprefix("swapped_")
    cheats = {f"{name}_{kind}": text for name, text in CHEATS.items() if f"{name}_{kind}" in measures}
    names = [deciding, "deletion_of_other_treatments", *cheats]
    specific = all(measures.passed(name) for name in names)
    lost = (
        f"with other treatments' maps the model loses {percent(measures.value('swapped_skill'))} of its skill"
        if deciding == "swapped_skill"
        else "with other treatments' maps its predictions keep a correlation of "
        f"{1 - measures.value('swapped_predictions'):.2f} with its own"
    )
    if specific:
        code = Code.SPECIFIC if used else Code.FAITHFUL_SPECIFIC
        sentence = f"{needed} and treatment-specific{pointing}: {lost}."
    else:
        code = Code.NOT_SPECIFIC if used else Code.FAITHFUL_NOT_SPECIFIC
        found = [text for name, text in cheats.items() if not measures.passed(name)]
        if not measures.passed(deciding):
            found = [f"{lost}, so one map would do for all treatments"]
        elif not measures.passed("deletion_of_other_treatments"):
            found.insert(0, "deleting what another treatment's map points at takes away as much")
        sentence = f"{needed}{pointing}, but not treatment-specific: {'; '.join(found)}."
    if not used:
        sentence = sentence.replace(" and treatment-specific", " and are treatment-specific").replace(
            "but not treatment-specific", "but are not treatment-specific"
        )
    return Verdict(code, sentence, caveats, [*rests_on, *names])


def _caveats(measures: Measures, predictive: str | None) -> list[str]:
    found = []
    if predictive is None:
        found.append("How well the model predicts is not known (no --dataset, no record of its training).")
    elif predictive == "recorded_skill":
        found.append("How well the model predicts was taken from the record of its training, not measured.")
    if "uniform_retrained" not in measures:
        wanted = "--controls" if "skill" in measures else "--dataset and --controls"
        found.append(f"Whether attention was needed was not tested: that takes {wanted}.")
    if measures.value("seed_skill") < -thresholds.BETTER_SEED * measures.value("skill"):
        found.append(
            "The same model of another seed predicts better by "
            f"{-measures.value('seed_skill'):.2f}: this one was not trained as well as it could be, and a "
            "verdict on that one may differ."
        )
    found += [text for name, text in CONTROLS.items() if measures.passed(f"{name}_retrained") is False]
    for name in ("best_simple_model", "randomised_weights", "seed_stability"):
        if measures.passed(name) is False:
            measure = measures.get(name)
            assert measure is not None
            found.append(measure.sentence)
    return found


def _first(measures: Measures, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if measures.passed(name) is not None), None)
