"""Samples and losses of the MSA/pair model's training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bioattn.alignments.alphabet import GAP
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.choices import TRAIN
from bioattn.models.evoformer.config import EvoformerTrainingConfig
from bioattn.models.evoformer.heads import (
    bin_edges,
    contact_bins,
    contact_probabilities,
    distance_bins,
    sample_losses,
)
from bioattn.models.evoformer.inputs import target_columns
from bioattn.models.evoformer.training_families import TrainingFamily, TrainingSamples, draw_rows


def test_bins_are_those_of_the_supplement():
    edges = bin_edges(64)
    assert len(edges) == 63
    assert (float(edges[0]), float(edges[-1])) == (2.3125, 21.6875)
    assert float(edges[1] - edges[0]) == pytest.approx(0.3125)
    distances = torch.tensor([0.0, 2.3, 2.32, 7.9, 8.3, 21.0, 22.0, 500.0])
    # The middle of bin k lies at 2.15625 + 0.3125 k, and 8 Å between those of bins 18 and 19.
    assert distance_bins(distances, 64).tolist() == [0, 0, 1, 18, 20, 60, 63, 63]
    assert contact_bins(64) == 19


def test_contact_probabilities_are_sums_of_bins():
    logits = torch.randn(4, 4, 64)
    wanted = [
        [sum(math.exp(v) for v in row[:19]) / sum(math.exp(v) for v in row) for row in rows]
        for rows in logits.tolist()
    ]
    np.testing.assert_allclose(contact_probabilities(logits).numpy(), wanted, rtol=1e-4)


def test_losses_are_those_of_loops():
    torch.manual_seed(0)
    residues, rows = 9, 3
    logits, msa_logits = torch.randn(residues, residues, 64), torch.randn(rows, residues, 23)
    positions = torch.randn(residues, 3) * 5
    distances = torch.cdist(positions, positions)
    distances[2] = distances[:, 2] = math.nan
    index = torch.tensor([0, 1, 2, 3, 4, 8, 9, 10, 30])
    separation = index[:, None] - index[None]
    true, chosen = torch.randint(0, 22, (rows, residues)), (torch.rand(rows, residues) < 0.4).float()
    found = sample_losses(logits, msa_logits, distances, separation, true, chosen)
    probability = logits.softmax(-1).tolist()
    bins, contact = [], []
    for i in range(residues):
        for j in range(residues):
            if 2 in (i, j):
                continue
            place = sum(float(distances[i, j]) > edge for edge in bin_edges(64).tolist())
            bins.append(-math.log(probability[i][j][place]))
            if abs(int(separation[i, j])) >= 6:
                near = sum(probability[i][j][:19])
                contact.append(-math.log(near if place < 19 else 1 - near))
    cells = [
        -math.log(msa_logits[s, r].softmax(-1)[true[s, r]])
        for s in range(rows)
        for r in range(residues)
        if chosen[s, r]
    ]
    assert float(found.distogram) == pytest.approx(np.mean(bins), rel=1e-4)
    assert float(found.contact) == pytest.approx(np.mean(contact), rel=1e-3)
    assert float(found.masked_msa) == pytest.approx(np.mean(cells), rel=1e-4)


def test_nothing_known_costs_nothing_and_moves_nothing():
    logits = torch.randn(4, 4, 64, requires_grad=True)
    unknown = torch.full((4, 4), math.nan)
    index = torch.arange(4)
    none = torch.zeros(2, 4)
    found = sample_losses(logits, torch.randn(2, 4, 23), unknown, index[:, None] - index, none.long(), none)
    total = found.distogram + found.contact + found.masked_msa
    total.backward()
    assert float(total.detach()) == 0
    assert not logits.grad.any()


CONFIG = EvoformerTrainingConfig(
    max_msa_clusters=8, max_extra_msa=40, crop=30, steps=40, simulated_steps=2, simulated_families=3
)


@pytest.fixture(scope="module")
def families(contact_dataset):
    dataset = open_contact_dataset(contact_dataset)
    return [TrainingFamily(dataset.protein(int(i))) for i in dataset.proteins_in(TRAIN)]


def samples(families, config=CONFIG, covariance=False):
    return TrainingSamples(families, config, covariance)


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
        assert sorted(drawn.step(step)[0].inputs.seq_mask.shape[0] for step in steps) == widths


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
    family.__dict__["weights"] = np.where(np.arange(len(heavy.msa)) % 2, 1.0, 0.01)
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
    assert target_columns(msa, 0, 0.5).tolist() == [0, 1]
    assert target_columns(msa, 1, 0.5).tolist() == [1]


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
