"""Skills and what is lost of them, against NumPy and scikit-learn one treatment at a time."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bioattn.checks.promoters import HeldOut, mean_over_promoters
from bioattn.checks.skills import SkillComparison, mean_skill


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(80, 3))
    return truth, truth + rng.normal(size=(80, 3)), rng


def test_skill_is_the_mean_pearson_r(tables):
    truth, prediction, rng = tables
    truth[rng.random(truth.shape) < 0.2] = np.nan
    expected = []
    for treatment in range(3):
        known = ~np.isnan(truth[:, treatment])
        expected.append(np.corrcoef(truth[known, treatment], prediction[known, treatment])[0, 1])
    (found,) = mean_skill(truth, prediction, "regression")(np.ones((1, 80)))
    assert found == pytest.approx(np.mean(expected))


def test_skill_of_a_binary_task_is_twice_the_auroc_less_one(tables):
    truth, prediction, _ = tables
    labels = (truth > 0).astype(float)
    expected = [2 * roc_auc_score(labels[:, t], prediction[:, t]) - 1 for t in range(3)]
    (found,) = mean_skill(labels, prediction, "binary")(np.ones((1, 80)))
    assert found == pytest.approx(np.mean(expected))


def test_differences_are_paired(tables):
    truth, prediction, rng = tables
    genes = HeldOut(
        split="test",
        ids=[str(row) for row in range(80)],
        codes=np.zeros((80, 4), np.uint8),
        targets_BT=truth,
        task="regression",
        all_ids=(),
    )
    comparison = SkillComparison(genes, resamples=200, seed=0)
    comparison.add("own", prediction)
    comparison.add("the same", prediction)
    comparison.add("nothing", rng.normal(size=truth.shape))
    comparison.add("both", prediction, np.zeros_like(truth))
    assert comparison.lost("own", "the same") == (0, 0, 0)
    assert comparison.share_lost("own", "the same") == (0, 0, 0)
    own, lost = comparison.skill("own"), comparison.lost("own", "nothing")
    assert lost.value == pytest.approx(own.value - comparison.skill("nothing").value)
    assert lost.low > 0.3
    assert comparison.share_lost("own", "nothing").value == pytest.approx(lost.value / own.value)
    assert comparison.share_lost("own", "both").value == pytest.approx(0.5)  # the mean of r and 0
    assert np.isnan(comparison.share_lost("nothing", "own").value) == (comparison.skill("nothing").value <= 0)


def test_means_leave_out_what_is_not_known():
    values = np.array([[1.0, 3.0], [np.nan, np.nan], [5.0, np.nan]])
    weights = np.array([[1.0, 1.0, 1.0], [3.0, 0.0, 1.0], [0.0, 5.0, 0.0]])
    np.testing.assert_allclose(mean_over_promoters(values)(weights), [3.5, (3 * 2 + 5) / 4, np.nan])
