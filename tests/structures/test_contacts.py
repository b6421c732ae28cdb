"""Contacts and their precision against loops and against figures published with the shared pairs."""

import math

import numpy as np
import pandas as pd
import pytest

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.models.evoformer.training_families import (
    MEAN_FIELD,
    MODEL,
    MUTUAL_INFORMATION,
    Evaluation,
    TrainingFamily,
    coupling_scores,
)
from bioattn.structures.contacts import (
    contact_scores,
    contacts,
    distances,
    known_pairs,
)
from tests.conftest import REPOSITORY
from tests.making import bioattn


def test_contacts_equal_a_plain_loop():
    random = np.random.default_rng(2)
    cb = random.normal(0, 6, (30, 3))
    cb[[4, 17]] = np.nan
    found, judged, apart = contacts(cb), known_pairs(cb), distances(cb)
    for i in range(30):
        for j in range(30):
            known = not (math.isnan(cb[i, 0]) or math.isnan(cb[j, 0]))
            away = math.dist(cb[i], cb[j]) if known else math.nan
            assert judged[i, j] == (known and abs(i - j) >= 6)
            assert found[i, j] == (known and abs(i - j) >= 6 and away < 8)
            assert math.isnan(apart[i, j]) == (not known)
            if known:
                assert abs(apart[i, j] - away) < 1e-5
    assert found.any()


def loop_precision(scores, cb, number_of):
    pairs = []
    for i in range(len(cb)):
        for j in range(i + 6, len(cb)):
            if not (np.isnan(cb[i]).any() or np.isnan(cb[j]).any()):
                pairs.append((-scores[i][j], i, j, math.dist(cb[i], cb[j]) < 8))
    pairs.sort()
    best = pairs[: number_of(sum(not np.isnan(place).any() for place in cb))]
    return sum(near for *_, near in best) / len(best)


def test_precision_is_that_of_loops():
    random = np.random.default_rng(0)
    cb = random.normal(0, 8, (40, 3))
    cb[[3, 17, 18]] = np.nan
    scores = random.normal(size=(40, 40)).round(1)
    scores = scores + scores.T
    found = contact_scores(scores, cb)
    assert found["P@L/5"] == pytest.approx(loop_precision(scores, cb, lambda length: length // 5))
    assert found["P@L"] == pytest.approx(loop_precision(scores, cb, lambda length: length))


def test_nothing_to_judge_is_not_a_number_and_left_out_of_means():
    none = contact_scores(np.zeros((5, 5)), np.zeros((5, 3)))
    assert math.isnan(none["P@L"])
    known = {"P@L/5": 0.5, "P@L": 0.25}
    same = {"split": "test", "predictor": MODEL}
    (header, row), *_ = Evaluation(pd.DataFrame([same | none, same | known])).tables()
    assert dict(zip(header, row, strict=True)) == same | {"families": "2", "P@L/5": "0.500", "P@L": "0.250"}


def test_couplings_find_the_contacts_of_simulated_families(tmp_path):
    path = tmp_path / "x.dataset.h5"
    assert bioattn("prepare", "contacts", REPOSITORY / "data/families/PAIRS.tsv", "-o", path, "-q") == 0
    dataset = open_contact_dataset(path)
    scores = [coupling_scores(TrainingFamily(dataset.protein(row))) for row in range(len(dataset.ids))]
    direct, mutual = (
        np.mean([each[name]["P@L/5"] for each in scores]) for name in (MEAN_FIELD, MUTUAL_INFORMATION)
    )
    assert direct > 0.8 > mutual > 0.6
