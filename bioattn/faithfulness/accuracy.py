"""Accuracy of a model on genes that it was not trained on, and its loss when a part of the model is replaced.

*Skill* is one number for either task: the mean over treatments of Pearson r over genes, or of 2 · AUROC − 1 for a
binary task. A constant prediction, such as the training mean, has skill 0; a perfect one has skill 1. Intervals
resample genes with the same draws for all models, so differences are paired by gene.

Shape suffixes: B genes, T treatments, R resamples.
"""

import numpy as np

from bioattn.faithfulness.similarity import mean_ignoring_nan
from bioattn.inference.runner import Floats, HeldOut
from bioattn.promoters.bootstrap import Estimate, Statistic, interval, resampled
from bioattn.promoters.response_metrics import auroc, pearson


def mean_skill(truth_BT: Floats, prediction_BT: Floats, task: str) -> Statistic:
    """The skill on resampled genes (weights, shape (R, B)): shape (R,)."""

    def skill(weights_RB: Floats) -> Floats:
        if task == "binary":
            return mean_ignoring_nan(2 * auroc(truth_BT, prediction_BT, weights_RB) - 1, axis=1)
        return mean_ignoring_nan(pearson(truth_BT, prediction_BT, weights_RB), axis=1)

    return skill


class SkillComparison:
    """Skills of several predictors of the same genes, on the same draws."""

    def __init__(self, genes: HeldOut, resamples: int, seed: int) -> None:
        self.genes = genes
        self._resamples, self._seed = resamples, seed
        self._skills: dict[str, Floats] = {}

    def add(self, name: str, *predictions_BT: Floats) -> None:
        """Add a predictor; given several predictions, its skill is their mean."""
        each = [
            resampled(
                mean_skill(self.genes.targets_BT, prediction, self.genes.task),
                len(self.genes.ids),
                self._resamples,
                self._seed,
            )
            for prediction in predictions_BT
        ]
        self._skills[name] = np.mean(each, axis=0)

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


def correlation_statistic(own_BT: Floats, other_BT: Floats) -> Statistic:
    """Mean over treatments of Pearson r over promoters between two sets of predictions."""
    return lambda weights_RB: mean_ignoring_nan(pearson(own_BT, other_BT, weights_RB), axis=1)
