"""Gain and shape: against NumPy one map at a time, and on models whose treatments differ in one of them alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture, substitute
from bioattn.checks.promoters import known_bins, predict
from bioattn.checks.skills import gain_and_shape, join_weights, other_treatments, split_weights
from bioattn.checks.thresholds import IDLE
from bioattn.models.promoter.model import PromoterModel
from tests.result_files import Heard

SOURCE = [2, 3, 1, 0]


def parts_of(model, codes):
    return gain_and_shape(model.predictor(), codes, known_bins(codes, model.config.bin_edges))


def predicted(model, codes, substitution=None):
    listening = None if substitution is None else substitute(["*"], substitution)
    return predict(model.predictor(), codes, listening)


@pytest.mark.parametrize("null_key", [False, True])
def test_parts_make_the_weights_again(null_key):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(6 + null_key), size=(3, 2, 4))
    idle = np.array([[0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0]], bool)
    parts = split_weights(torch.from_numpy(weights), torch.from_numpy(idle), null_key)
    for b, h, t in np.ndindex(3, 2, 4):
        counted = weights[b, h, t, :6][~idle[h]]
        assert parts.gain_BHT1[b, h, t, 0] == pytest.approx(counted.sum())
        shape = parts.shape_BHTK[b, h, t, :6].numpy()
        np.testing.assert_allclose(shape[~idle[h]], counted / counted.sum())
        assert not shape[idle[h]].any()
    again = join_weights(parts.gain_BHT1, parts.shape_BHTK, parts, torch.from_numpy(idle))
    np.testing.assert_allclose(again, weights)
    halved = join_weights(parts.gain_BHT1 / 2, parts.shape_BHTK, parts, torch.from_numpy(idle)).numpy()
    np.testing.assert_allclose(halved.sum(-1), 1)
    np.testing.assert_allclose(
        halved[..., :6][:, 0][..., ~idle[0]], weights[..., :6][:, 0][..., ~idle[0]] / 2
    )


def test_a_null_key_without_weight_takes_what_another_gain_leaves():
    weights = torch.tensor([0.25, 0.75, 0.0])[None, None, None]
    idle = torch.zeros(1, 2, dtype=torch.bool)
    parts = split_weights(weights, idle, null_key=True)
    halved = join_weights(parts.gain_BHT1 / 2, parts.shape_BHTK, parts, idle)
    assert halved.flatten().tolist() == [0.125, 0.375, 0.5]


def test_shapes_are_exchanged_and_gains_stay(make_model, codes):
    model = make_model(sink=True)
    parts = parts_of(model, codes)
    assert parts.has_gain
    assert not parts.idle["promoter.cross.0"].any()
    own, used = Heard(), Heard()
    predict(model.predictor(), codes, capture(["*"], own))
    predict(model.predictor(), codes, substitute(["*"], parts.exchanged(shapes=SOURCE), used))
    own_BHTP, used_BHTP = (heard.weights[0].numpy() for heard in (own, used))
    np.testing.assert_allclose(used_BHTP.sum(-1), own_BHTP.sum(-1), atol=1e-6)
    expected = own_BHTP[:, :, SOURCE] / own_BHTP[:, :, SOURCE].sum(-1, keepdims=True)
    np.testing.assert_allclose(used_BHTP / used_BHTP.sum(-1, keepdims=True), expected, atol=1e-6)
    both = predicted(model, codes, parts.exchanged(gains=SOURCE, shapes=SOURCE))
    np.testing.assert_allclose(both, predicted(model, codes, other_treatments(SOURCE)), atol=1e-5)


def test_a_ridge_beside_the_network_has_no_shapes(make_model, codes):
    model = make_model()
    vocabulary = model.vocabulary
    config = replace(model.config, conditioning="ridge", reader="linear", ridge_blocks=((3, 1, 1, 0),))
    ridge = PromoterModel([config], vocabulary).eval()
    both = replace(model, model=PromoterModel.mean([model.model, ridge], vocabulary))
    assert "promoter.ridge.0" in both.sites
    own, beside = parts_of(model, codes), parts_of(both, codes)
    assert beside.mean_shape.keys() == beside.idle.keys() == own.idle.keys()
    for name, shape_HTP in own.mean_shape.items():
        torch.testing.assert_close(beside.mean_shape[name], shape_HTP)
    swapped = (predicted(each, codes, other_treatments(SOURCE)) for each in (model, both))
    moved = [found - predicted(each, codes) for found, each in zip(swapped, (model, both), strict=True)]
    np.testing.assert_allclose(moved[1], moved[0] / 2, atol=1e-5)


def test_mean_shapes_are_means_over_the_promoters_that_have_the_bin(make_model, codes):
    model = make_model(sink=True)
    known = known_bins(codes, model.config.bin_edges)
    own, used = Heard(), Heard()
    predict(model.predictor(), codes, capture(["*"], own))
    predict(model.predictor(), codes, substitute(["*"], parts_of(model, codes).averaged(), used))
    own_BHTP, used_BHTP = (heard.weights[0].numpy() for heard in (own, used))
    shape = own_BHTP / own_BHTP.sum(-1, keepdims=True)
    mean = np.stack([shape[known[:, p], :, :, p].mean(0) for p in range(known.shape[1])], -1)
    for promoter in (0, 1):  # the second lacks bins
        there = mean * known[promoter]
        expected = there / there.sum(-1, keepdims=True) * own_BHTP[promoter].sum(-1, keepdims=True)
        np.testing.assert_allclose(used_BHTP[promoter], expected, atol=1e-6)


def test_without_null_key_and_idle_bins_a_shape_is_the_map(make_model, codes):
    model = make_model()
    parts = parts_of(model, codes)
    assert not parts.has_gain
    exchanged = predicted(model, codes, parts.exchanged(shapes=SOURCE))
    np.testing.assert_allclose(exchanged, predicted(model, codes, other_treatments(SOURCE)), atol=1e-5)


def test_bins_whose_value_hardly_varies_are_idle(make_model, codes):
    model = make_model(readout="shared")
    codes = codes[3:].copy()
    codes[:, -24:] = 2
    values = []
    hook = (
        model.model.members[0]
        .network.hops[0]
        .project_value.register_forward_hook(
            lambda _module, _inputs, output: values.append(output.double().numpy())
        )
    )
    idle = parts_of(model, codes).idle["promoter.cross.0"].numpy()
    hook.remove()
    variance_HP = values[0].var(0).T
    assert (idle == (variance_HP < IDLE * variance_HP.mean(-1, keepdims=True))).all()
    assert idle[:, -3:].all()
    assert not idle[:, :3].any()


def test_own_gains_alone_are_told_from_shapes(make_model, codes):
    """Treatments that differ in the weight of the null key alone."""
    model = make_model(attention_query="gain", sink=True)
    parts, own = parts_of(model, codes), predicted(model, codes)
    np.testing.assert_allclose(predicted(model, codes, parts.exchanged(shapes=SOURCE)), own, atol=1e-5)
    assert np.abs(predicted(model, codes, parts.exchanged(gains=SOURCE)) - own).max() > 0.01


def test_weight_moved_among_constant_bins_is_gain(make_model, codes):
    """Treatments that differ in the weight of bins alone that are the same in all promoters; no null key."""
    model = make_model(attention_query="shared", position_bias="treatment", readout="shared")
    model.model.members[
        0
    ].network.stem.normalise = torch.nn.Identity()  # it lets constant bins see the others
    model.model.members[0].network.position_curve.share_KP[1:] = (
        0  # own biases reach 32 bases from the anchor
    )
    codes = codes[3:].copy()
    codes[:, -40:] = np.random.default_rng(1).integers(4, size=40)
    parts, own = parts_of(model, codes), predicted(model, codes)
    assert parts.has_gain
    assert np.abs(predicted(model, codes, other_treatments(SOURCE)) - own).max() > 0.01
    np.testing.assert_allclose(predicted(model, codes, parts.exchanged(shapes=SOURCE)), own, atol=1e-5)


def test_own_position_biases_alone_are_mean_shapes(make_model, codes):
    model = make_model(attention_query="position", position_bias="treatment")
    codes = codes[3:]
    parts, own = parts_of(model, codes), predicted(model, codes)
    assert np.abs(predicted(model, codes, parts.exchanged(shapes=SOURCE)) - own).max() > 0.01
    np.testing.assert_allclose(predicted(model, codes, parts.averaged()), own, atol=1e-5)
