"""The centred outer product against covariances computed pair by pair."""

import numpy as np
import torch

from bioattn.models.evoformer.pair_updates import OuterProductMean


def test_is_the_covariance_of_projected_columns():
    torch.manual_seed(0)
    layer = OuterProductMean(6, 4, 3, centred=True).double()
    torch.nn.init.normal_(layer.project_output.weight)
    torch.nn.init.normal_(layer.project_factors.bias)
    msa, mask = torch.randn(9, 5, 6).double(), (torch.rand(9, 5) > 0.3).double()
    pair = layer(torch.zeros(5, 5, 4).double(), msa, mask).detach().numpy()
    factors = layer.project_factors(layer.normalise(msa)).detach().numpy()
    weight = layer.project_output.weight.detach().numpy().reshape(4, 3, 3)
    for i in range(5):
        for j in range(5):
            rows = [s for s in range(9) if mask[s, i] and mask[s, j]]
            means = [
                factors[[s for s in range(9) if mask[s, column]], column].sum(0)
                / (float(mask[:, column].sum()) + 1e-3)
                for column in (i, j)
            ]
            outer = sum(
                np.outer(factors[s, i, :3] - means[0][:3], factors[s, j, 3:] - means[1][3:]) for s in rows
            )
            wanted = np.einsum("cab,ab->c", weight, outer) / (len(rows) + 1e-3)
            np.testing.assert_allclose(pair[i, j], wanted, rtol=1e-9, atol=1e-9)


def test_columns_that_do_not_vary_give_nothing():
    layer = OuterProductMean(6, 4, 3, centred=True)
    torch.nn.init.normal_(layer.project_output.weight)
    alike = torch.randn(1, 5, 6).expand(400, 5, 6)
    update = layer(torch.zeros(5, 5, 4), alike, torch.ones(400, 5))
    assert update.abs().max() < 1e-3
