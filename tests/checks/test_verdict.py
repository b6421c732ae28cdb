"""The logic of the verdict: one row per combination of what passed."""

import math

import pytest

from bioattn.checks import thresholds
from bioattn.checks.measures import Measures, percent, rounded
from bioattn.checks.promoters import judge_promoters
from bioattn.interpret.promoter_maps import Quantity
from bioattn.promoters.response_metrics import Estimate

GOOD = {
    "skill": 0.7,
    "uniform_retrained": 0.4,
    "shared_retrained": 0.3,
    "swapped_skill": 0.8,
    "swapped_predictions": 0.7,
    "deletion": 0.6,
    "deletion_against_mutagenesis": 0.9,
    "deletion_of_other_treatments": 0.8,
    "deletion_of_other_promoters": 0.5,
    "seed_stability": 0.8,
    "swapped_shapes_skill": 0.6,
    "mean_shapes_skill": 0.6,
    "swapped_shapes_predictions": 0.6,
    "mean_shapes_predictions": 0.6,
    "gain_retrained": 0.2,
    "position_retrained": 0.2,
}
LEAST = {
    "skill": thresholds.SKILL,
    "recorded_skill": thresholds.SKILL,
    "uniform_retrained": thresholds.USED,
    "shared_retrained": thresholds.SHARED,
    "swapped_skill": thresholds.SWAPPED,
    "swapped_predictions": thresholds.SWAPPED,
    "swapped_shapes_skill": thresholds.SHAPED,
    "mean_shapes_skill": thresholds.SHAPED,
    "swapped_shapes_predictions": thresholds.SWAPPED,
    "mean_shapes_predictions": thresholds.SWAPPED,
    "gain_retrained": 0.0,
    "position_retrained": 0.0,
    "deletion": thresholds.POINTED,
    "deletion_against_mutagenesis": thresholds.FOUND,
    "deletion_of_other_treatments": thresholds.OWN_OF_MUTAGENESIS,
    "deletion_of_other_promoters": thresholds.OWN_MAP,
    "seed_stability": thresholds.STABLE,
    "seed_skill": None,
}


def judge(measures, quantity=Quantity.ATTENTION):
    return judge_promoters(measures, quantity)


def measured(**changes):
    """Measures as in GOOD but for `changes`; None leaves one out. Intervals are ± 0.01."""
    measures = Measures()
    for name, value in {**GOOD, **changes}.items():
        if value is not None:
            estimate = value if isinstance(value, Estimate) else Estimate(value, value - 0.01, value + 0.01)
            measures.add(name, name, estimate, f"the sentence of {name}", least=LEAST[name])
    return measures


def test_contributions_are_specific_only_where_mutagenesis_tells_treatments_apart():
    measures = measured(deletion_of_other_treatments=None)
    measures.skip("by mutagenesis, too, it takes away as much", "deletion_of_other_treatments")
    assert judge(measures, Quantity.ATTENTION).code == "used-treatment-specific"
    shapes = measured(deletion_of_other_treatments=None, mean_shapes_skill=0.0)
    shapes.skip("by mutagenesis, too, it takes away as much", "deletion_of_other_treatments")
    assert "by mutagenesis, too" not in judge(shapes, Quantity.ATTENTION).sentence
    verdict = judge(measures, Quantity.CONTRIBUTIONS)
    assert verdict.code == "used-not-treatment-specific"
    assert "by mutagenesis, too, it takes away as much" in verdict.sentence


WITHOUT_DATASET = dict.fromkeys(
    [
        *("skill", "swapped_skill", "swapped_shapes_skill", "mean_shapes_skill"),
        *("uniform_retrained", "shared_retrained", "gain_retrained", "position_retrained"),
    ]
)


@pytest.mark.parametrize("changes", [{}, {"deletion": 0.0}, {"deletion_of_other_treatments": 0.1}])
def test_the_verdict_names_what_was_judged(changes):
    sentences = [
        judge(measured(**changes), quantity).sentence
        for quantity in (Quantity.CONTRIBUTIONS, Quantity.ATTENTION)
    ]
    assert "the contributions, which add up to the prediction, " in sentences[0]
    assert "the attention weights " in sentences[1]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, "used-treatment-specific"),
        ({"skill": 0.02}, "model-not-predictive"),
        ({"skill": Estimate(0.15, -0.01, 0.3)}, "undecided"),
        ({"skill": Estimate(-0.15, -0.2, -0.1)}, "model-not-predictive"),
        ({"skill": 0.02, "uniform_retrained": None, "swapped_skill": None}, "model-not-predictive"),
        ({"uniform_retrained": 0.0}, "not-used"),
        ({"uniform_retrained": -0.2, "deletion": 0.0}, "not-used"),
        ({"uniform_retrained": Estimate(0.2, -0.01, 0.4)}, "undecided"),
        ({"deletion_of_other_promoters": 0.0}, "position-only"),
        ({"deletion_of_other_promoters": 0.0, "deletion_against_mutagenesis": 0.0}, "position-only"),
        ({"deletion_of_other_promoters": 0.0, "deletion": 0.0}, "unfaithful"),
        ({**WITHOUT_DATASET, "deletion_of_other_promoters": -0.1}, "position-only"),
        ({"deletion": 0.0}, "unfaithful"),
        ({"deletion_against_mutagenesis": 0.05}, "unfaithful"),
        ({"deletion": math.nan}, "unfaithful"),
        ({"deletion": 0.0, "swapped_skill": 0.0}, "unfaithful"),
        ({"swapped_skill": 0.0}, "used-not-treatment-specific"),
        ({"swapped_skill": 0.0, "swapped_predictions": 0.9}, "used-not-treatment-specific"),
        ({"deletion_of_other_treatments": 0.0}, "used-not-treatment-specific"),
        ({"swapped_skill": None, "swapped_predictions": None, "deletion_of_other_treatments": None}, "used"),
        ({"swapped_shapes_skill": 0.0}, "used-not-treatment-specific"),
        ({"swapped_shapes_skill": Estimate(0.05, -0.01, 0.1)}, "undecided"),
        # Five treatments of yeast: the share is short of a tenth, and by chance may be more.
        ({"swapped_skill": Estimate(0.09, 0.059, 0.132)}, "undecided"),
        ({"swapped_skill": Estimate(0.11, 0.059, 0.132)}, "undecided"),
        (
            {"swapped_skill": Estimate(0.09, 0.059, 0.132), "mean_shapes_skill": 0.0},
            "used-not-treatment-specific",
        ),
        ({"mean_shapes_skill": 0.0}, "used-not-treatment-specific"),
        ({"swapped_shapes_predictions": 0.0, "mean_shapes_predictions": 0.0}, "used-treatment-specific"),
        ({**WITHOUT_DATASET, "mean_shapes_predictions": 0.0}, "faithful-not-treatment-specific"),
        ({"swapped_shapes_skill": None, "mean_shapes_skill": None}, "used-treatment-specific"),
        ({"shared_retrained": 0.0}, "used-treatment-specific"),
        (WITHOUT_DATASET, "faithful-treatment-specific"),
        ({**WITHOUT_DATASET, "swapped_predictions": 0.0}, "faithful-not-treatment-specific"),
        ({**WITHOUT_DATASET, "recorded_skill": 0.01}, "model-not-predictive"),
        ({**WITHOUT_DATASET, "recorded_skill": 0.5, "deletion": 0.01}, "unfaithful"),
        ({**WITHOUT_DATASET, "swapped_predictions": None, "deletion_of_other_treatments": None}, "faithful"),
    ],
)
def test_verdict(changes, code):
    measures = measured(**changes)
    verdict = judge(measures)
    assert verdict.code == code
    assert verdict.sentence[0].isupper()
    assert verdict.sentence.endswith(".")
    assert "nan" not in verdict.sentence
    assert verdict.rests_on
    assert all(name in measures for name in verdict.rests_on)


def test_a_model_that_relies_on_what_it_does_not_need_is_told_from_one_whose_maps_are_idle():
    relying = judge(measured(uniform_retrained=-0.1))
    assert "(has 10 % more of its skill)" in relying.sentence
    assert "relies on it" in relying.sentence
    idle = judge(measured(uniform_retrained=0.0, deletion=0.0))
    assert "explain nothing" in idle.sentence
    assert relying.code == idle.code == "not-used"


def test_caveats_say_what_else_there_is():
    assert judge(measured()).caveats == []
    assert "may differ" in judge(measured(seed_skill=-0.2)).caveats[0]
    assert judge(measured(seed_skill=-0.03)).caveats == []
    assert "One query" in judge(measured(shared_retrained=0.0)).caveats[0]
    assert "One shape" in judge(measured(gain_retrained=-0.1)).caveats[0]
    assert "Own position biases" in judge(measured(position_retrained=-0.1)).caveats[0]
    assert judge(measured(seed_stability=0.1)).caveats == ["the sentence of seed_stability"]
    blind = judge(measured(**WITHOUT_DATASET)).caveats
    assert ["not known" in blind[0], "not tested" in blind[1]] == [True, True]
    recorded = judge(measured(**WITHOUT_DATASET, recorded_skill=0.5)).caveats
    assert "record of its training" in recorded[0]


def test_a_measure_passes_by_its_value_and_its_interval():
    measures = Measures()
    assert measures.add("a", "", Estimate(0.5, 0.1, 0.9), "", least=0.4).passed is True
    assert measures.add("b", "", Estimate(0.5, -0.1, 0.9), "", least=0.4).passed is False
    assert measures.add("c", "", Estimate(0.5, 0.1, 0.9), "", least=0.4, also=False).passed is False
    assert measures.add("d", "", 0.5, "", most=0.4).passed is False
    assert measures.add("e", "", math.nan, "", least=0.4).passed is None
    assert measures.add("f", "", 0.5, "").passed is None
    assert list(measures) == ["a", "b", "c", "d", "e", "f"]
    assert rounded(math.nan) is None
    assert rounded(0.12345678) == 0.123457
    assert percent(-0.0004) == "0 %"


@pytest.mark.parametrize(
    ("skill", "words"),
    [
        (Estimate(-0.02, -0.1, 0.0), "The model predicts nothing on genes"),
        (Estimate(0.06, 0.02, 0.1), "(a skill of 0.06, 95 % interval 0.02 to 0.10; 0.1 or more is needed)"),
        (Estimate(-0.15, -0.2, -0.1), "predicts the wrong way on genes it was not trained on (a skill of"),
        (Estimate(0.04, math.nan, math.nan), "predicts too little on genes it was not trained on"),
    ],
)
def test_nothing_is_predicted_only_where_the_interval_holds_0(skill, words):
    sentence = judge(measured(skill=skill)).sentence
    assert words in sentence
    assert ("predicts nothing" in sentence) == (skill.low <= 0 <= skill.high)
