"""Row-wise ranking metrics against scikit-learn, ties included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score, roc_auc_score

from bioattn.interpret.planted.row_ranking import row_auroc, row_average_precision

SHAPES = st.tuples(st.integers(1, 4), st.integers(2, 15))


@st.composite
def scored_rows(draw):
    shape = draw(SHAPES)
    scores = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])))
    kinds = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 2)))
    return scores, kinds


@given(scored_rows())
def test_equal_scikit_learn(case):
    scores, kinds = case
    positive = kinds == 1
    precision, area = row_average_precision(scores, positive), row_auroc(scores, positive)
    for row in range(len(scores)):
        if positive[row].any():
            assert precision[row] == pytest.approx(average_precision_score(positive[row], scores[row]))
        else:
            assert np.isnan(precision[row])
        if positive[row].any() and not positive[row].all():
            assert area[row] == pytest.approx(roc_auc_score(positive[row], scores[row]))
        else:
            assert np.isnan(area[row])


@given(scored_rows())
def test_left_out_positions_do_not_count(case):
    scores, kinds = case
    area = row_auroc(scores, kinds == 1, kinds == 2)
    for row, kind in enumerate(kinds):
        used = kind > 0
        if {1, 2} <= set(kind.tolist()):
            assert area[row] == pytest.approx(roc_auc_score(kind[used] == 1, scores[row, used]))
        else:
            assert np.isnan(area[row])


def test_by_eye():
    scores = np.array([[0.9, 0.8, 0.7, 0.6]])
    positive = np.array([[True, False, True, False]])
    assert row_auroc(scores, positive).tolist() == [0.75]
    assert row_average_precision(scores, positive).tolist() == [pytest.approx((1 + 2 / 3) / 2)]
    flat = np.zeros((1, 4))
    assert row_auroc(flat, positive).tolist() == [0.5]
    assert row_average_precision(flat, positive).tolist() == [0.5]


def test_both_classes_at_once_is_a_mistake():
    positive = np.array([[True, False]])
    with pytest.raises(ValueError, match="positive and negative"):
        row_auroc(np.zeros((1, 2)), positive, positive)
