"""In-silico mutagenesis against a plain loop, over every kind of model."""

from typing import Any

import numpy as np
import pytest
import torch

from bioattn.attention.cpu import tiles as cpu_tiles
from bioattn.interpret.attribution import (
    GradientInput,
    IntegratedGradients,
    Mutagenesis,
    centred,
    contributions,
)
from bioattn.models.promoter.config import Conditioning, TreatmentEncoding
from bioattn.models.promoter.stem import one_hot

KINDS: list[dict[str, Any]] = [
    {},
    {"hops": 2, "sink": True},
    {"readout": "shared"},
    {"readout": "shared", "position_bias": "treatment", "sink": True, "stem": "both", "channels": 8},
    {"readout": "shared", "reader": "hidden", "sink": True},
    {"kernel": 15, "attention_score": "gaussian"},
    {"kernel": 1, "pool": 7, "both_strands": False, "attention_score": "additive"},
    {"pool": 40, "kernel": 25, "value_layers": 2, "reader": "hidden"},
    {"pool": 1, "value_layers": 0, "attention_query": "uniform"},
    {"conditioning": Conditioning.CONCAT},
    {"conditioning": Conditioning.FILM},
    {"conditioning": Conditioning.CROSS_ALL},
    {"stem": "patch", "readout": "shared"},
    {"stem": "transformer", "pool": 7},
    {"stem": "kmer", "kmer": 4, "pool": 30, "both_strands": False, "attention_query": "shared"},
    {"treatment_encoder": TreatmentEncoding.FEATURES},
]


def plain_loop(model, codes_BL):
    """Every mutant through the whole network, those of a promoter at once."""
    treatments = model.encode_treatments(model.treatments)

    def predict(codes_BL):
        with torch.no_grad():
            return model.model(torch.from_numpy(codes_BL), treatments).numpy()

    predictions = np.concatenate([predict(codes_L[None]) for codes_L in codes_BL])
    values = np.zeros((len(codes_BL), len(treatments.names), codes_BL.shape[1], 4), dtype=np.float32)
    for b, codes_L in enumerate(codes_BL):
        known = np.flatnonzero(codes_L < 4)
        mutants_NAL = np.tile(codes_L, (len(known), 4, 1))
        for mutants_AL, position in zip(mutants_NAL, known, strict=True):
            mutants_AL[:, position] = range(4)
        effects_NAT = (predict(mutants_NAL.reshape(-1, len(codes_L))) - predictions[b]).reshape(
            len(known), 4, -1
        )
        values[b][:, known] = (effects_NAT - effects_NAT.mean(1, keepdims=True)).transpose(2, 0, 1)
    return predictions, values


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_equals_a_plain_loop(kind, make_model, make_codes):
    model, codes = make_model(**kind), make_codes(2)
    wanted_predictions, wanted = plain_loop(model, codes)

    found = Mutagenesis(model.predictor(), batch_size=50)(codes)

    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(found.predictions_BT, wanted_predictions, atol=1e-5)
    np.testing.assert_allclose(found.values_BTLA, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [{}, {"readout": "shared", "sink": True}], ids=str)
def test_equals_a_plain_loop_where_attention_comes_in_cache_sized_pieces(
    kind, make_model, make_codes, monkeypatch
):
    """As with the promoters and treatments of real data; there may be no mutant that needs the whole network."""
    monkeypatch.setattr(cpu_tiles, "MIN_MULTIPLICATIONS", {torch.float32: 1})
    model, codes = make_model(length=400, **kind), make_codes(1, 400)
    wanted_predictions, wanted = plain_loop(model, codes)

    found = Mutagenesis(model.predictor(), batch_size=50)(codes)

    np.testing.assert_allclose(found.predictions_BT, wanted_predictions, atol=1e-5)
    np.testing.assert_allclose(found.values_BTLA, wanted, atol=1e-5)


def test_sharp_attention_loses_nothing(make_model, make_codes):
    """A bin that holds all the weight is mutated: what is left must not be the rounding of what was there."""
    model, codes = make_model(pool=4, position_bias="none"), make_codes(1, 70)
    with torch.no_grad():
        model.model.members[0].network.hops[0].project_query.weight *= 30  # type: ignore[union-attr,index]
    _, wanted = plain_loop(model, codes)

    found = Mutagenesis(model.predictor())(codes)

    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found.values_BTLA, wanted, rtol=2e-5, atol=2e-5)


GRADIENT_KINDS: list[dict[str, Any]] = [
    {"hops": 2, "sink": True},
    {"conditioning": Conditioning.CONCAT},
    {"conditioning": Conditioning.FILM},
    {"conditioning": Conditioning.CROSS_ALL},
    {"stem": "kmer", "pool": 9},
    {"stem": "patch", "pool": 9},
    {"stem": "transformer"},
    {"attention_score": "additive", "treatment_encoder": TreatmentEncoding.FEATURES, "pool": 9},
]


@pytest.mark.parametrize("kind", GRADIENT_KINDS, ids=str)
def test_gradient_is_that_of_finite_differences(kind, make_model, make_codes):
    """At some bases, in float64; what is centred must be centred in both."""
    model, codes = make_model(**kind), make_codes(2)
    model.model.double()
    treatments = model.encode_treatments(model.treatments)
    treatments = treatments._replace(
        numbers_TN=treatments.numbers_TN.double(), present_TN=treatments.present_TN.double()
    )

    def answer(bases):
        with torch.no_grad():
            return model.model.members[0].network(torch.from_numpy(codes), treatments, bases)

    bases = one_hot(torch.from_numpy(codes), torch.float64).transpose(1, 2).contiguous().requires_grad_()
    answers = model.model.members[0].network(torch.from_numpy(codes), treatments, bases)
    (found,) = torch.autograd.grad(answers[1, 2], bases)
    random = np.random.default_rng(0)
    step = 1e-6
    for position in [14, 30, codes.shape[1] - 1, *random.integers(14, codes.shape[1], 6).tolist()]:
        for base in range(4):
            moved = torch.zeros_like(bases)
            moved[1, position, base] = step
            with torch.no_grad():
                wanted = (answer(bases + moved) - answer(bases - moved))[1, 2] / (2 * step)
            assert found[1, position, base].item() == pytest.approx(wanted.item(), abs=1e-6)
    assert found[0].abs().max() == 0
    assert found.abs().max() > 1e-3


@pytest.mark.parametrize("kind", GRADIENT_KINDS[1:5], ids=str)
def test_gradient_input_is_the_centred_gradient(kind, make_model, make_codes):
    model, codes = make_model(**kind), make_codes(2)
    treatments = model.encode_treatments(model.treatments)

    found = GradientInput(model.predictor())(codes)

    bases = one_hot(torch.from_numpy(codes)).transpose(1, 2).contiguous().requires_grad_()
    answers = model.model(torch.from_numpy(codes), treatments, bases)
    for treatment in range(len(treatments.names)):
        (wanted,) = torch.autograd.grad(answers[:, treatment].sum(), bases, retain_graph=True)
        wanted = wanted - wanted.mean(-1, keepdim=True)
        wanted[torch.from_numpy(codes) == 4] = 0
        np.testing.assert_allclose(found.values_BTLA[:, treatment], wanted.numpy(), atol=1e-5)
    with torch.no_grad():
        plain = model.model(torch.from_numpy(codes), treatments).numpy()
    np.testing.assert_allclose(found.predictions_BT, plain, atol=1e-6)
    # Bases and codes are two ways to one answer; in double precision, as sums of another order differ in float32.
    model.model.double()
    with torch.no_grad():
        standard = [
            model.model.members[0].network(torch.from_numpy(codes), treatments, given).numpy()
            for given in (None, bases.detach().double())
        ]
    np.testing.assert_allclose(*standard, atol=1e-6)
    assert all(parameter.requires_grad for parameter in model.model.parameters())


@pytest.mark.parametrize("kind", [GRADIENT_KINDS[0], GRADIENT_KINDS[4]], ids=str)
def test_integrated_gradients_are_complete(kind, make_model, make_codes):
    """Against f(promoter) − f(baseline) by two forward passes; many steps for a small gap."""
    model, codes = make_model(**kind), make_codes(2)
    treatments = model.encode_treatments(model.treatments)
    found = IntegratedGradients(model.predictor(), 400)(codes)

    assert found.gap_BT is not None
    for promoter in range(2):
        begin = torch.from_numpy(np.where(codes[promoter] < 4, 0.25, 0)[:, None].repeat(4, 1)).float()
        with torch.no_grad():
            first = model.model(torch.from_numpy(codes[promoter : promoter + 1]), treatments, begin[None])
        difference = found.predictions_BT[promoter] - first.numpy()[0]
        assert np.abs(difference).max() > 0.05
        assert np.abs(found.gap_BT[promoter]).max() < 0.03 * np.abs(difference).max()
        sums = contributions(found.values_BTLA, codes)[promoter].sum(-1)
        np.testing.assert_allclose(sums + found.gap_BT[promoter], difference, atol=1e-4)
    coarse = IntegratedGradients(model.predictor(), 3)(codes)
    assert coarse.gap_BT is not None
    assert np.abs(coarse.gap_BT).max() > np.abs(found.gap_BT).max()


def test_what_the_bases_share_may_be_far_larger_than_what_tells_them_apart():
    values = (1e6 + np.random.default_rng(0).normal(size=(1, 2, 50, 4))).astype(np.float32)
    found = centred(values, np.zeros((1, 50), np.uint8))
    assert np.abs(found.sum(-1, dtype=np.float64)).max() < 1e-6 * np.abs(found).max()
