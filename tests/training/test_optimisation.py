"""The optimiser, the learning rate and the average of the weights against their formulas."""

import math

import pytest
import torch
from torch import nn

from bioattn.training.task import WeightAverage, make_optimizer, warm_up_and_cosine


def test_only_matrices_and_filters_decay():
    model = nn.Sequential(nn.Conv1d(4, 8, 3), nn.GroupNorm(1, 8), nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(2.0)
    optimizer = make_optimizer(model, weight_decay=0.1, betas=(0.9, 0.99))
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for group in optimizer.param_groups:
        group["lr"] = 0.5
        assert group["betas"] == (0.9, 0.99)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        kept = 2.0 * (1 - 0.5 * 0.1) if name in ("0.weight", "3.weight") else 2.0
        torch.testing.assert_close(parameter, torch.full_like(parameter, kept), msg=name)


def test_the_rate_rises_in_a_line_and_falls_along_half_a_cosine():
    rates = [warm_up_and_cosine(step, 100, peak=2.0, warmup_fraction=0.1) for step in range(101)]
    assert rates[:10] == pytest.approx([2.0 * (step + 1) / 10 for step in range(10)])
    assert rates[10] == pytest.approx(2.0)
    assert rates[55] == pytest.approx(2.0 * (0.01 + 0.99 / 2))
    assert rates[70] == pytest.approx(2.0 * (0.01 + 0.99 * (1 + math.cos(math.pi * 60 / 90)) / 2))
    assert rates[100] == pytest.approx(0.02)
    assert warm_up_and_cosine(0, 5, peak=1.0, warmup_fraction=0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_average_is_that_of_a_loop(decay):
    model = nn.BatchNorm1d(2)  # also has a counter, which is copied
    average = WeightAverage(model, decay)
    expected = torch.ones(2)
    for step in range(1, 8):
        with torch.no_grad():
            model.weight.copy_(torch.tensor([1.0 + step, -step]))
            model.num_batches_tracked.fill_(step)
        average.update(model, step)
        memory = min(decay, step / (10 + step)) if decay else 0.0
        expected = memory * expected + (1 - memory) * model.weight.detach()
    torch.testing.assert_close(average.model.weight.detach(), expected)
    assert average.model.num_batches_tracked.item() == 7
