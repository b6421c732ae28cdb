"""Simulated families: the sampler against exact odds, planted contacts found again, folds that look like folds."""

import numpy as np
import pytest

from bioattn.alignments import couplings
from bioattn.errors import SettingsError
from bioattn.simulate.potts import (
    GAP,
    FamilySettings,
    PottsModel,
    contact_pairs,
    generate_fold,
    potts_model,
    sample_family,
)


def test_sampler_reaches_the_model_s_distribution():
    random = np.random.default_rng(0)
    fields, coupling = random.normal(size=(2, 20)), random.normal(size=(1, 20, 20))
    model = PottsModel(fields, np.array([[0, 1]]), coupling)
    settings = FamilySettings(depth=40_000, generations=1, sweeps=20, tips=1, gaps=0)
    states = sample_family(model, settings, random)
    wanted = np.exp(fields[0][:, None] + fields[1] + coupling[0])
    wanted /= wanted.sum()
    found = np.zeros((20, 20))
    np.add.at(found, (states[:, 0], states[:, 1]), 1 / len(states))
    assert np.abs(found - wanted).max() < 5 * np.sqrt(wanted.max() / len(states))


def test_planted_contacts_are_found_by_mean_field_couplings():
    random = np.random.default_rng(5)
    fold = generate_fold(random, max_length=70)
    settings = FamilySettings(depth=1500, gaps=0.02)
    states = sample_family(potts_model(fold.positions, settings, random), settings, random)
    assert states.shape == (1500, len(fold.positions))
    planted = np.zeros((len(fold.positions),) * 2, bool)
    planted[tuple(contact_pairs(fold.positions, min_separation=6).T)] = True
    scores = couplings.average_product_correction(
        couplings.mean_field_norms(*couplings.pair_frequencies(states))
    )
    i, j = np.triu_indices(len(scores), 6)
    best = np.argsort(-scores[i, j])[: len(scores) // 5]
    assert planted[i[best], j[best]].mean() > 0.7
    assert planted[i, j].mean() < 0.12


def test_shared_ancestry_makes_rows_alike():
    def identity(tips):
        random = np.random.default_rng(2)
        fold = generate_fold(random, max_length=60)
        settings = FamilySettings(depth=128, tips=tips, gaps=0, sweeps=2)
        states = sample_family(potts_model(fold.positions, settings, random), settings, random)
        return (states[:, None] == states[None]).mean()

    assert identity(0.1) > identity(1.0) + 0.05


def test_gaps_come_in_runs_and_spare_the_first_row():
    random = np.random.default_rng(4)
    fold = generate_fold(random)
    settings = FamilySettings(depth=400, gaps=0.1)
    gaps = sample_family(potts_model(fold.positions, settings, random), settings, random) == GAP
    assert not gaps[0].any()
    assert 0.03 < gaps.mean() < 0.3
    # A gap's neighbour is a gap far more often than any other cell is.
    assert gaps[:, 1:][gaps[:, :-1]].mean() > 3 * gaps.mean()


@pytest.mark.parametrize("seed", range(4))
def test_folds_are_dense_and_do_not_clash(seed):
    fold = generate_fold(np.random.default_rng(seed), min_length=50, max_length=90)
    length = len(fold.positions)
    assert 50 <= length <= 90
    assert len(fold.structure) == length
    assert set(fold.structure) <= set("HEC")
    per_residue = len(contact_pairs(fold.positions, min_separation=6)) / length
    assert 0.7 < per_residue < 4


def test_bad_settings_are_refused():
    with pytest.raises(SettingsError, match="tips is 2"):
        FamilySettings(tips=2)
