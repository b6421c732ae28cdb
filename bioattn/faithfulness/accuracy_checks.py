"""Checks of accuracy: the model's skill, and its loss without attention, with one query, or with swapped maps.

*Skill* is one number for either task: the mean over treatments of Pearson r over genes, or of 2 · AUROC − 1 for a
binary task. A constant prediction, such as the training mean, has skill 0; a perfect one has skill 1. Intervals
resample genes with the same draws for all models, so differences are paired by gene.

Shape suffixes: B genes, T treatments, R resamples.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bioattn.attention.capture import Substitution, substitute
from bioattn.faithfulness import thresholds
from bioattn.faithfulness.gain_and_shape import (
    UniformWeights,
    exchanges,
    gain_and_shape,
    other_promoters,
    other_treatments,
)
from bioattn.faithfulness.maps import key_edges
from bioattn.faithfulness.measures import Measures, percent
from bioattn.faithfulness.similarity import mean_ignoring_nan
from bioattn.faithfulness.subject import ONE_TREATMENT, RESAMPLES, Subject, known_bins, map_sites, predict
from bioattn.inference.runner import CheckableRunner, Floats, HeldOut
from bioattn.promoters.response_metrics import Estimate, Statistic, auroc, interval, pearson, resampled
from bioattn.store.training_record import MODEL_ROW


def mean_skill(truth_BT: Floats, prediction_BT: Floats, task: str) -> Statistic:
    """The skill on resampled genes (weights, shape (R, B)): shape (R,)."""

    if task == "binary":
        return lambda weights: mean_ignoring_nan(2 * auroc(truth_BT, prediction_BT, weights) - 1, axis=1)
    return lambda weights: mean_ignoring_nan(pearson(truth_BT, prediction_BT, weights), axis=1)


class SkillComparison:
    """Skills of several predictors of the same genes, on the same draws."""

    def __init__(self, genes: HeldOut, resamples: int, seed: int) -> None:
        self.genes = genes
        self._resamples, self._seed = resamples, seed
        self._skills: dict[str, Floats] = {}

    def add(self, name: str, *predictions_BT: Floats) -> None:
        """Add a predictor; given several predictions, its skill is their mean."""
        genes, number = self.genes, len(self.genes.ids)
        skills = [mean_skill(genes.targets_BT, each, genes.task) for each in predictions_BT]
        self._skills[name] = np.mean(
            [resampled(each, number, self._resamples, self._seed) for each in skills], axis=0
        )

    def skill(self, name: str) -> Estimate:
        """The skill and its 95 % interval over genes."""
        return interval(self._skills[name])

    def lost(self, name: str, other: str) -> Estimate:
        """Skill of `name` minus skill of `other`, with a paired interval."""
        return interval(self._skills[name] - self._skills[other])

    def share_lost(self, name: str, other: str) -> Estimate:
        """The difference as a share of the skill of `name`; NaN where that skill is 0 or less."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = 1 - self._skills[other] / self._skills[name]
        return interval(np.where(self._skills[name] > 0, shares, np.nan))

    def __contains__(self, name: str) -> bool:
        return name in self._skills


RETRAINED = {
    "uniform": ("uniform attention", thresholds.USED, "weighs all positions the same"),
    "shared": ("one query", thresholds.SHARED, "has one query for all treatments"),
    "gain": (
        "own gains only",
        0.0,
        "has one shape for all treatments, of which each says only how much every head attends,",
    ),
    "position": (
        "own position bias only",
        0.0,
        "attends by the distance from the anchor alone, each treatment to its own,",
    ),
    "query": ("own query only", 0.0, "has one position bias for all treatments"),
}
"""Retrained controls: label, the least share of the skill that they lack, and what they do."""
OTHER_MAPS = {
    "swapped": ("other treatments' maps", "When every treatment uses the map of another"),
    "swapped_shapes": (
        "other treatments' shapes",
        "When every treatment attends as much as it does, but where another treatment does",
    ),
    "mean_shapes": (
        "mean shapes",
        "When every treatment attends as much as it does, but where it does on average over promoters",
    ),
    "swapped_gains": (
        "other treatments' gains",
        "When every treatment attends where it does, but as much as another treatment",
    ),
}
"""Maps that are replaced, whole or a part (`bioattn.faithfulness.gain_and_shape`): label, and what was done."""
NO_DATASET = "needs the measured responses: give the dataset with --dataset"
NO_CONTROLS = "needs models retrained on the same data: give --controls DIR to keep them in"
NO_SKILL = "the model predicts too little to have anything to lose"


def check_recorded_skill(subject: Subject, evaluation: Mapping[str, Any], measures: Measures) -> None:
    """Add the accuracy of the model and of simple models on the same genes, from the training record."""
    figure = "auroc" if subject.model.task == "binary" else "pearson"
    name = "median AUROC" if figure == "auroc" else "median Pearson r"
    rows = evaluation.get("rows", [])
    for cells in ("test genes", "validation genes"):
        here = [row for row in rows if row.get("cells") == cells and row.get(figure) is not None]
        own = next((row[figure] for row in here if row["name"] == MODEL_ROW), None)
        if own is None:
            continue
        if subject.genes is None:
            skill = 2 * own - 1 if figure == "auroc" else own
            measures.add(
                "recorded_skill",
                "skill, by the training record",
                skill,
                f"By the record of its training the model reaches a {name} of {own:.2f} on {cells}; the training "
                f"mean has {0.5 if figure == 'auroc' else 0}.",
                least=thresholds.SKILL,
            )
        simple = max(
            (row for row in here if row["name"] != MODEL_ROW), key=lambda row: row[figure], default=None
        )
        if simple is not None:
            better = simple[figure] >= own
            measures.add(
                "best_simple_model",
                "best simple model, by the training record",
                simple[figure],
                f"A simple model predicts {'as well or better' if better else 'less well'}: {simple['name']} has "
                f"a {name} of {simple[figure]:.2f} on {cells}, this model {own:.2f}.",
                most=own,
                also=not better,
            )
        return


def check_skill(subject: Subject, measures: Measures) -> bool | None:
    """Add the skill on held-out genes. Returns whether the model predicts anything; None without evidence."""
    genes = subject.genes
    if genes is None:
        measures.skip("skill", NO_DATASET)
        return measures.passed("recorded_skill")
    comparison = SkillComparison(genes, RESAMPLES, subject.settings.seed)
    comparison.add("own", predict(subject.predictor, genes.codes))
    own = comparison.skill("own")
    kind = "2 · AUROC − 1" if genes.task == "binary" else "Pearson r"
    measure = measures.add(
        "skill",
        "skill on held-out genes",
        own,
        f"On {len(genes.ids):,} {genes.split} genes the predictions have a {kind} of {own.value:.2f}, mean over "
        "treatments; the training mean, which says the same of every promoter, has 0.",
        least=thresholds.SKILL,
    )
    return measure.passed


def compare_skills(
    subject: Subject, retrained: Mapping[str, Sequence[CheckableRunner]], measures: Measures
) -> None:
    """Add the share of the skill that retrained controls lack, and the share lost with other attention weights.

    retrained: name of a control (`uniform`, `shared`, …) → those that there are.
    """
    if subject.genes is None or not measures.passed("skill"):
        for name in ("forced", "elsewhere", *OTHER_MAPS):
            measures.skip(f"{name}_skill", NO_DATASET if subject.genes is None else NO_SKILL)
    else:
        _judge_skills(subject, _skills(subject, subject.genes, retrained), measures)
    _swapped_predictions(subject, measures)


def _skills(
    subject: Subject, genes: HeldOut, retrained: Mapping[str, Sequence[CheckableRunner]]
) -> SkillComparison:
    comparison = SkillComparison(genes, RESAMPLES, subject.settings.seed)
    comparison.add("own", predict(subject.predictor, genes.codes))
    table = subject.model.treatments.select(subject.names)
    for name, models in retrained.items():
        if models:
            each = [predict(model.predictor(table), genes.codes) for model in models]
            comparison.add(name, *each)

    def with_weights(substitution: Substitution) -> Floats:
        return predict(subject.predictor, genes.codes, substitute(map_sites(subject.predictor), substitution))

    known_BP = known_bins(genes.codes, key_edges(subject.predictor))
    comparison.add("forced", with_weights(UniformWeights(known_BP)))
    comparison.add("elsewhere", with_weights(other_promoters))
    if len(subject.names) > 1:
        swaps = exchanges(len(subject.names), subject.settings.exchanges, subject.settings.seed)
        comparison.add("swapped", *(with_weights(other_treatments(source)) for source in swaps))
        parts = gain_and_shape(subject.predictor, genes.codes, known_BP)
        comparison.add("swapped_shapes", *(with_weights(parts.exchanged(shapes=each)) for each in swaps))
        comparison.add("mean_shapes", with_weights(parts.averaged()))
        if parts.has_gain:
            comparison.add("swapped_gains", *(with_weights(parts.exchanged(gains=each)) for each in swaps))
    return comparison


def _judge_skills(subject: Subject, comparison: SkillComparison, measures: Measures) -> None:
    own = comparison.skill("own")
    spread = 0.0
    if "seed" in comparison:
        lost = comparison.lost("own", "seed")
        spread = abs(lost.value)
        measures.add(
            "seed_skill",
            "skill of another seed, less",
            lost,
            f"The same model of another seed reaches {own.value - lost.value:.2f}: so much is chance of training.",
        )
    for name, (label, least, what) in RETRAINED.items():
        if name in comparison:
            share, lost = comparison.share_lost("own", name), comparison.lost("own", name)
            measures.add(
                f"{name}_retrained",
                f"skill lost with {label}, retrained",
                share,
                f"A model retrained on the same data that {what} reaches {own.value - lost.value:.2f}: "
                f"{_less(share.value)}.",
                least=least,
                also=lost.value > spread,
            )
    for name, label, what in (
        ("forced", "skill lost with uniform weights forced on it", "made to weigh all positions the same"),
        ("elsewhere", "skill lost with another promoter's maps", "given the map of another promoter"),
    ):
        share = comparison.share_lost("own", name)
        shift = " (a model is not made for that: told, not judged)" if name == "forced" else ""
        sentence = f"Without retraining, {what}, the model has {_less(share.value)}{shift}."
        measures.add(f"{name}_skill", label, share, sentence)
    for name, (label, what) in OTHER_MAPS.items():
        if len(subject.names) == 1:
            measures.skip(f"{name}_skill", ONE_TREATMENT)
        elif name in comparison:
            share = comparison.share_lost("own", name)
            measures.add(
                f"{name}_skill",
                f"skill lost with {label}",
                share,
                f"{what}, the model has {_less(share.value)}.",
                least={"swapped": thresholds.SWAPPED, "swapped_gains": None}.get(name, thresholds.SHAPED),
            )
        else:
            measures.skip(
                f"{name}_skill", "no null key, and no bin whose value hardly varies: all gains are 1"
            )


def _swapped_predictions(subject: Subject, measures: Measures) -> None:
    """Change of the predictions of the sampled promoters with other maps, and with other or mean shapes."""
    names = ("swapped", "swapped_shapes", "mean_shapes")
    if len(subject.names) == 1:
        for name in names:
            measures.skip(f"{name}_predictions", ONE_TREATMENT)
        return
    codes_BL = subject.sample.codes
    own_BT = predict(subject.predictor, codes_BL)
    swaps = exchanges(len(subject.names), subject.settings.exchanges, subject.settings.seed)
    parts = gain_and_shape(subject.predictor, codes_BL, known_bins(codes_BL, key_edges(subject.predictor)))
    substitutions: tuple[Sequence[Substitution], ...] = (
        [other_treatments(source) for source in swaps],
        [parts.exchanged(shapes=source) for source in swaps],
        [parts.averaged()],
    )
    for name, others in zip(names, substitutions, strict=True):
        changed = [
            predict(subject.predictor, codes_BL, substitute(map_sites(subject.predictor), other))
            for other in others
        ]
        moved = subject.estimate(_mean_change(own_BT, changed))
        label, what = OTHER_MAPS[name]
        measures.add(
            f"{name}_predictions",
            f"1 − r of predictions with {label}",
            moved,
            f"{what}, predictions correlate with the model's own at r = {1 - moved.value:.2f}.",
            least=thresholds.SWAPPED,
        )


def _mean_change(own_BT: Floats, changed: Sequence[Floats]) -> Statistic:
    """1 − r over promoters of predictions with changed ones, mean over treatments and changes."""
    return lambda weights_RB: (
        1
        - np.mean([mean_ignoring_nan(pearson(own_BT, each, weights_RB), axis=1) for each in changed], axis=0)
    )


def _less(share: float) -> str:
    if math.isnan(share):
        return "no skill to lose"
    return f"{percent(share)} less skill" if share >= 0 else f"{percent(-share)} more skill"
