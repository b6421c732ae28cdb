"""The losses against loops over pairs and cells."""

import math

import numpy as np
import pytest
import torch

from bioattn.models.evoformer.heads import (
    bin_edges,
    contact_bins,
    contact_probabilities,
    distance_bins,
)
from bioattn.models.evoformer.training.losses import sample_losses


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
