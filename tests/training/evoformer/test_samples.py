"""Samples: functions of seed and step, true to their family, drawn by weight."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bioattn.alignments.alphabet import GAP
from bioattn.alignments.contact_dataset import TRAIN, open_contact_dataset
from bioattn.models.evoformer.training.config import EvoformerTrainingConfig
from bioattn.models.evoformer.training.samples import (
    SimulatedFamilies,
    TrainingFamily,
    TrainingSamples,
    draw_rows,
    target_columns,
)

CONFIG = EvoformerTrainingConfig(
    max_msa_clusters=8, max_extra_msa=40, crop=30, steps=40, simulated_steps=2, simulated_families=3
)


@pytest.fixture(scope="module")
def families(contact_dataset):
    dataset = open_contact_dataset(contact_dataset)
    return [TrainingFamily(dataset.protein(int(i))) for i in dataset.proteins_in(TRAIN)]


def samples(families, config=CONFIG, covariance=False):
    return TrainingSamples(families, SimulatedFamilies(0, 3), config, covariance=covariance)


def test_a_step_is_the_same_whatever_was_drawn_before(families):
    first, second = samples(families), samples(families)
    for step in (0, 3, 4):
        first.step(step)
    (one,), (other,) = first.step(7), second.step(7)
    assert torch.equal(one.inputs.msa_feat, other.inputs.msa_feat)
    assert torch.equal(one.distances_RR.nan_to_num(), other.distances_RR.nan_to_num())
    assert not torch.equal(one.inputs.msa_feat, second.step(8)[0].inputs.msa_feat)


def test_every_family_comes_once_per_pass(families):
    drawn = samples(families, replace(CONFIG, any_target=0.0, crop=200))
    widths = sorted(len(family.columns) for family in families)
    for turn in range(3):
        steps = range(turn * len(families), (turn + 1) * len(families))
        assert sorted(drawn.step(step)[0].inputs.num_residues for step in steps) == widths


def test_truth_and_letters_are_those_of_the_family(families):
    (family,) = families[:1]
    config = replace(CONFIG, simulated_steps=0, any_target=0.0, crop=20)
    (sample,) = samples([family], config).step(3)
    protein = family.protein
    target = sample.inputs.aatype.numpy()
    starts = [
        start
        for start in range(protein.num_columns - 19)
        if np.array_equal(protein.msa[0, start : start + 20], target)
    ]
    (start,) = starts
    cb = protein.cb[start : start + 20]
    wanted = np.linalg.norm(cb[:, None] - cb[None], axis=-1)
    np.testing.assert_allclose(sample.distances_RR.numpy(), wanted, rtol=1e-5, atol=1e-4)
    known = {row.tobytes() for row in protein.msa[:, start : start + 20]}
    for row in [*sample.true_msa_SR.numpy(), *sample.inputs.extra_msa.numpy()]:
        assert row.astype(np.uint8).tobytes() in known
    assert sample.inputs.msa_feat.shape[:2] == (8, 20)
    assert sample.inputs.extra_msa.shape == (40, 20)


def test_rows_are_drawn_by_weight_and_the_target_comes_first(families):
    (family,) = families[:1]
    heavy = replace(family.protein)
    family = TrainingFamily(heavy)
    family.__dict__["weights"] = np.where(np.arange(heavy.num_rows) % 2, 1.0, 0.01)
    config = replace(CONFIG, any_target=0.0)
    drawn = [draw_rows(family, config, np.random.default_rng(k)) for k in range(20)]
    assert all(rows[0] == 0 and len(set(rows)) == len(rows) == 48 for rows in drawn)
    assert np.mean([rows[1:] % 2 for rows in drawn]) > 0.9
    alike = [
        draw_rows(family, replace(config, weighted_rows=False), np.random.default_rng(k)) for k in range(20)
    ]
    assert 0.4 < np.mean([rows[1:] % 2 for rows in alike]) < 0.6


def test_columns_of_a_target_are_its_residues_and_those_of_most_rows():
    msa = np.full((4, 3), GAP, np.uint8)
    msa[0, 0] = 1
    msa[1:, 1] = 2
    assert target_columns(msa, 0).tolist() == [0, 1]
    assert target_columns(msa, 1).tolist() == [1]


def test_covariance_features_are_those_of_the_columns_shown(families):
    config = replace(CONFIG, simulated_steps=0, any_target=1.0, crop=20)
    (sample,) = samples(families, config, covariance=True).step(0)
    assert sample.inputs.pair_feat.shape == (20, 20, 3)
    wholes = [family.covariance for family in families]
    part = sample.inputs.pair_feat.numpy()
    assert any(
        np.array_equal(whole[start : start + 20, start : start + 20], part)
        for whole in wholes
        for start in range(len(whole) - 19)
    )
