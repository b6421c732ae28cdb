"""Other weights in a real model: each against a model that has them by itself."""

from dataclasses import replace

import numpy as np
import torch

from bioattn.attention.capture import capture, substitute
from bioattn.attention.site import AttentionSite, Axis
from bioattn.checks.promoters import known_bins, predict
from bioattn.checks.skills import exchanges, other_treatments
from bioattn.checks.weights import (
    KnownVisible,
    OfSampleBefore,
    drawn_by,
    of_sample_before,
    shuffled,
    uniform,
    weighed_visible,
)
from bioattn.models.promoter.model import PromoterModel
from tests.result_files import Heard

SITE = AttentionSite(name="atoms", axes=(Axis("key"),), heads=(0,))


def test_uniform_weights_are_those_of_the_uniform_model(make_model, codes):
    for sink in (False, True):
        model = make_model(sink=sink)
        config = replace(model.config, attention_query="uniform", position_bias="none", sink=False)
        other = PromoterModel([config], model.vocabulary).eval()
        missing = other.load_state_dict(model.model.state_dict(), strict=False)
        assert not missing.missing_keys
        predictor = model.predictor()
        weights = uniform(KnownVisible(known_bins(codes, model.config.bin_edges)))
        forced = predict(predictor, codes, substitute(["*"], weights))
        np.testing.assert_allclose(forced, predict(replace(model, model=other).predictor(), codes), atol=1e-5)
        assert np.abs(forced - predict(predictor, codes)).max() > 0.01


def test_uniform_weights_take_the_mask_of_each_batch_at_each_site():
    """Two sites in turn and three batches of different sizes; the null key of a site with a sink gets nothing."""
    known = np.random.default_rng(0).random((7, 4)) < 0.6
    known[3] = False
    alike = uniform(KnownVisible(known))
    axes = (Axis("sample"), Axis("head"), Axis("treatment"), Axis("key", "position", edges=(0, 2, 4, 6, 8)))
    sites = [
        AttentionSite(name=name, axes=axes, heads=(0, 1), null_key=name == "sink")
        for name in ("plain", "sink")
    ]
    for first, stop in ((0, 2), (2, 6), (6, 7)):
        for site in sites:
            keys = 4 + site.null_key
            found = alike(site, torch.rand(stop - first, 2, 3, keys), None).numpy()
            assert found.shape == (stop - first, 2, 3, keys)
            for row in range(stop - first):
                bins = known[first + row]
                expected = [bool(holds) / max(1, bins.sum()) for holds in bins] + [0.0] * site.null_key
                assert np.allclose(found[row], expected)


def test_exchanged_treatments_use_each_others_maps(make_model, codes):
    model = make_model()
    predictor = model.predictor()
    own, used = Heard(), Heard()
    predict(predictor, codes, capture(["*"], own))
    source = [2, 3, 1, 0]
    swapped = predict(predictor, codes, substitute(["*"], other_treatments(source), used))
    for treatment, other in enumerate(source):
        torch.testing.assert_close(used.weights[0][:, :, treatment], own.weights[0][:, :, other])
    plain = predict(predictor, codes)
    assert np.abs(swapped - plain).max() > 0.01
    same = predict(predictor, codes, substitute(["*"], other_treatments([0, 1, 2, 3])))
    np.testing.assert_allclose(same, plain, atol=1e-5)


def test_of_sample_before_maps_are_the_neighbours(make_model, codes):
    model = make_model()
    predictor = model.predictor()
    own, used = Heard(), Heard()
    predict(predictor, codes[3:], capture(["*"], own))
    predict(predictor, codes[3:], substitute(["*"], of_sample_before, used))
    for promoter in range(len(codes) - 3):
        torch.testing.assert_close(used.weights[0][promoter], own.weights[0][promoter - 1])


def test_exchanges_give_every_treatment_another_ones_map():
    for number in (2, 3, 50):
        found = exchanges(number, 4, seed=0)
        assert len(found) == (1 if number == 2 else 4)
        for source in found:
            assert sorted(source) == list(range(number))
            assert all(treatment != other for treatment, other in enumerate(source))
    assert exchanges(50, 1, seed=0) != exchanges(50, 1, seed=1)


def weights_over_atoms():
    """Weights (2, 3, 2, 5, 5) of two molecules of 5 and 3 atoms, of which some are no neighbours."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(2, 3, 2, 5, 5, generator=generator)
    weights *= torch.rand(weights.shape, generator=generator) > 0.4
    weights[..., 0] += 0.1
    weights[1, ..., 3:] = 0
    return weights / weights.sum(-1, keepdim=True)


def test_weights_of_atoms_are_made_uniform_and_shuffled_among_those_that_may_be_attended_to():
    weights = weights_over_atoms()
    alike = uniform(weighed_visible)(SITE, weights, None)
    mixed = shuffled(weighed_visible, drawn_by(0))(SITE, weights, None)
    for found in (alike, mixed):
        assert torch.equal(found > 0, weights > 0)
    for own, found in zip(weights.flatten(0, -2), alike.flatten(0, -2), strict=True):
        np.testing.assert_allclose(found[own > 0], 1 / int((own > 0).sum()))
    assert not torch.equal(mixed, weights)
    assert torch.equal(mixed.sort(-1).values, weights.sort(-1).values)


def test_atoms_take_the_weights_of_another_molecule():
    """Three molecules of 5, 3 and 4 atoms, of which the last is a batch of its own."""
    weights = weights_over_atoms()
    other = OfSampleBefore(np.arange(5) < np.array([5, 3, 4])[:, None])
    found = other(SITE, weights, None)
    for atom in range(5):
        assert torch.equal(found[0, :, :, atom], weights[1, :, :, atom % 3])
        assert torch.equal(found[1, :, :, atom], weights[0, :, :, atom])
    assert torch.equal(other(SITE, weights[:1], None)[:, :, :, :4], weights[:1, :, :, :4])
