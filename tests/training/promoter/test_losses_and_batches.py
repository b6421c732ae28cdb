"""Losses and training batches against plain loops over cells, genes and bases."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from bioattn.formats.nucleotides import decode
from bioattn.models.promoter.config import Loss, TrainingConfig
from bioattn.models.promoter.training.data import (
    TrainingBatches,
    cell_losses,
    classifier_free_loss,
    measured_cells,
)
from tests.training.promoter.conftest import FLANK, LENGTH, make_dataset

NAN = math.nan
TARGETS = [[1.0, NAN, 0.0], [NAN, NAN, 1.0], [0.0, 1.0, NAN], [NAN, NAN, NAN]]
ANSWERS = [[0.4, 3.0, -2.5], [1.0, -4.0, 0.2], [-0.7, 2.5, 9.0], [0.1, 0.2, 0.3]]
DELTA = 0.8


def one_loss(answer, target, loss):
    """The textbook formula for one cell; nothing for one without a target."""
    if math.isnan(target):
        return 0.0
    difference = abs(answer - target)
    if loss is Loss.MSE:
        return difference**2
    if loss is Loss.HUBER:
        return 0.5 * difference**2 if difference <= DELTA else DELTA * (difference - DELTA / 2)
    probability = 1 / (1 + math.exp(-answer))
    return -(target * math.log(probability) + (1 - target) * math.log(1 - probability))


def looped(answers, targets, loss):
    return [
        [one_loss(answer, target, loss) for answer, target in zip(*row, strict=True)]
        for row in zip(answers, targets, strict=True)
    ]


@pytest.mark.parametrize("loss", list(Loss))
def test_the_loss_of_each_cell(loss):
    answers = torch.tensor(ANSWERS, requires_grad=True)
    targets = torch.tensor(TARGETS)
    found = cell_losses(answers, targets, loss, DELTA)
    expected = looped(ANSWERS, TARGETS, loss)
    torch.testing.assert_close(found, torch.tensor(expected))
    found.sum().backward()
    assert (answers.grad[targets.isnan()] == 0).all()
    assert (answers.grad[~targets.isnan()] != 0).all()
    total = sum(map(sum, expected))
    assert measured_cells(targets).item() == 5
    assert found.sum().item() == pytest.approx(total)
    nothing = torch.full((2, 3), NAN)
    assert measured_cells(nothing).item() == 1
    assert cell_losses(torch.ones(2, 3), nothing, loss, DELTA).sum().item() == 0


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.75])
def test_parts_of_a_batch_add_up_to_its_expected_loss(loss, probability):
    """A cell asks its treatment with 1 − p and the unconditional token with p; the mean is over measured cells."""
    unconditional = [0.3, -0.2, 0.9, 0.0]
    known, dropped = looped(ANSWERS, TARGETS, loss), looped([[u] * 3 for u in unconditional], TARGETS, loss)
    expected = sum(
        (1 - probability) * known[b][t] + probability * dropped[b][t] for b in range(4) for t in range(3)
    )
    targets = torch.tensor(TARGETS)
    options = {"loss": loss, "huber_delta": DELTA, "probability": probability}
    parts = [
        classifier_free_loss(
            torch.tensor(ANSWERS)[rows],
            torch.tensor(unconditional)[rows, None],
            targets[rows],
            measured_cells(targets),
            **options,
        )
        for rows in (slice(0, 1), slice(1, 4))
    ]
    assert sum(parts).item() == pytest.approx(expected / 5)
    alone = classifier_free_loss(torch.tensor(ANSWERS), None, targets, measured_cells(targets), **options)
    assert alone.item() == pytest.approx(sum(map(sum, known)) / 5)


def batches(max_shift=FLANK, treatments_per_step=None, genes=150, **settings):
    """Batches of a dataset whose targets name their cells: 10 · gene + treatment; all but the last 20 genes."""
    dataset = make_dataset(genes=genes)
    numbers = 10.0 * np.arange(genes)[:, None] + np.arange(3)
    dataset = dataclasses.replace(dataset, targets=numbers.astype(np.float32))
    made = TrainingBatches(
        dataset,
        np.arange(genes - 20),
        np.array([0, 1, 2]),
        TrainingConfig(**{"batch_size": 32, "seed": 3, "max_shift": max_shift, **settings}),
        treatments_per_step=treatments_per_step,
    )
    return dataset, made


def genes_of(batch):
    return [int(row[0]) // 10 for row in batch.targets_BT.tolist()]


def reverse_complement(sequence):
    return sequence[::-1].translate(str.maketrans("ACGT", "TGCA"))


@pytest.mark.parametrize("max_shift", [0, 2, FLANK])
@pytest.mark.parametrize("turned", [False, True])
def test_a_row_is_a_shifted_window_of_its_gene(max_shift, turned):
    dataset, made = batches(max_shift, reverse_complement=turned)
    shifts: Counter[int] = Counter()
    strands: Counter[str] = Counter()
    for epoch in range(3):
        for step in range(made.steps_per_epoch):
            batch = made.batch(epoch, step)
            for gene, codes in zip(genes_of(batch), batch.codes_BL.numpy(), strict=True):
                stored, row = decode(dataset.codes[gene]), decode(codes)
                assert len(row) == LENGTH
                places = {
                    (shift, strand)
                    for shift in range(-FLANK, FLANK + 1)
                    for strand in "+-"
                    if (row if strand == "+" else reverse_complement(row))
                    == stored[FLANK + shift : FLANK + shift + LENGTH]
                }
                ((shift, strand),) = places
                shifts[shift] += 1
                strands[strand] += 1
    assert set(shifts) == set(range(-max_shift, max_shift + 1))
    assert set(strands) == ({"+", "-"} if turned else {"+"})
    if turned:
        assert 0.4 < strands["-"] / strands.total() < 0.6


def test_an_epoch_holds_every_training_gene_once_in_an_order_of_its_own():
    _, made = batches()
    assert made.steps_per_epoch == 4
    orders = []
    for epoch in range(2):
        drawn = [made.batch(epoch, step) for step in range(4)]
        assert [len(batch.codes_BL) for batch in drawn] == [32, 32, 32, 34]  # the 2 left over join the last
        orders.append([gene for batch in drawn for gene in genes_of(batch)])
        assert sorted(orders[-1]) == list(range(130))
    assert orders[0] != orders[1]
    seeds = {made.batch(epoch, step).seed for epoch in range(20) for step in range(4)}
    assert len(seeds) == 80
    assert max(seeds) < 2**63  # what torch takes
    assert batches(batch_size=500)[1].steps_per_epoch == 1


def test_a_batch_follows_from_seed_epoch_and_step_alone():
    _, made = batches(treatments_per_step=2)
    _, again = batches(treatments_per_step=2)
    wanted = [made.batch(*place) for place in ((0, 0), (0, 1), (1, 0))]
    found = [again.batch(*place) for place in ((1, 0), (0, 1), (0, 0))][::-1]
    for first, second in zip(wanted, found, strict=True):
        for left, right in zip(first[:3], second[:3], strict=True):
            assert torch.equal(left, right)
        assert first.seed == second.seed
    other = batches(treatments_per_step=2, seed=4)[1].batch(0, 0)
    assert genes_of(other) != genes_of(wanted[0])


def test_treatments_of_a_step_are_drawn_and_their_targets_follow():
    _, made = batches(treatments_per_step=2)
    seen = set()
    for epoch in range(6):
        batch = made.batch(epoch, 0)
        chosen = batch.treatments_T.tolist()
        assert chosen == sorted(set(chosen))
        assert len(chosen) == 2
        seen.add(tuple(chosen))
        expected = [[10 * (int(row[0]) // 10) + t for t in chosen] for row in batch.targets_BT.tolist()]
        assert batch.targets_BT.tolist() == expected
    assert len(seen) > 1
    assert batches(treatments_per_step=9)[1].batch(0, 0).treatments_T.tolist() == [0, 1, 2]
