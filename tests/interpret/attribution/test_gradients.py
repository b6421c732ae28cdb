"""Gradients of the bases against finite differences, and integrated gradients against the sum they promise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from bioattn.interpret.attribution.gradients import GradientInput, IntegratedGradients
from bioattn.interpret.attribution.values import contributions
from bioattn.interpret.choices import AttributionBaseline
from bioattn.models.promoter.best_match import best_match
from bioattn.models.promoter.config import Conditioning, TreatmentEncoding
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.stem import one_hot

Make = Callable[..., LoadedPromoterModel]
Codes = Callable[..., np.ndarray]
KINDS: list[dict[str, Any]] = [
    {"hops": 2, "sink": True},
    {"conditioning": Conditioning.CONCAT},
    {"conditioning": Conditioning.FILM},
    {"conditioning": Conditioning.CROSS_ALL},
    {"stem": "kmer", "pool": 9},
    {"attention_score": "additive", "treatment_encoder": TreatmentEncoding.FEATURES, "pool": 9},
]


def test_best_match_passes_gradcheck() -> None:
    torch.manual_seed(0)
    bases = torch.rand(3, 12, 4, dtype=torch.float64, requires_grad=True)
    filters = torch.randn(5, 4, 3, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(lambda b, f: best_match(b, f, 4), (bases, filters))
    assert torch.autograd.gradcheck(lambda b: best_match(b, filters.detach(), 4), (bases,))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bases_are_read_as_the_codes_are(kind: dict[str, Any], make_model: Make, make_codes: Codes) -> None:
    model = make_model(**kind)
    codes = torch.from_numpy(make_codes(3))
    treatments = model.encode_treatments(model.treatments)

    with torch.no_grad():
        wanted = model.model(codes, treatments)
        found = model.model(codes, treatments, one_hot(codes).transpose(1, 2))

    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gradient_is_that_of_finite_differences(
    kind: dict[str, Any], make_model: Make, make_codes: Codes
) -> None:
    """At some bases, in float64; what is centred must be centred in both."""
    model, codes = make_model(**kind), make_codes(2)
    model.model.double()
    treatments = model.encode_treatments(model.treatments)
    treatments = treatments._replace(
        numbers_TN=treatments.numbers_TN.double(), present_TN=treatments.present_TN.double()
    )

    def answer(bases: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model.model.standardised(torch.from_numpy(codes), treatments, bases)

    bases = one_hot(torch.from_numpy(codes), torch.float64).transpose(1, 2).contiguous().requires_grad_()
    answers = model.model.standardised(torch.from_numpy(codes), treatments, bases)
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


@pytest.mark.parametrize("kind", KINDS[1:5], ids=str)
def test_gradient_input_is_the_centred_gradient(
    kind: dict[str, Any], make_model: Make, make_codes: Codes
) -> None:
    model, codes = make_model(**kind), make_codes(2)
    treatments = model.encode_treatments(model.treatments)

    found = GradientInput(model.predictor())(codes)

    bases = one_hot(torch.from_numpy(codes)).transpose(1, 2).contiguous().requires_grad_()
    answers = model.model(torch.from_numpy(codes), treatments, bases)
    for treatment in range(treatments.size):
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
            model.model.standardised(torch.from_numpy(codes), treatments, given).numpy()
            for given in (None, bases.detach().double())
        ]
    np.testing.assert_allclose(*standard, atol=1e-6)
    assert all(parameter.requires_grad for parameter in model.model.parameters())


@pytest.mark.parametrize("baseline", list(AttributionBaseline))
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[4]], ids=str)
def test_integrated_gradients_are_complete(
    kind: dict[str, Any], baseline: AttributionBaseline, make_model: Make, make_codes: Codes
) -> None:
    """Against f(promoter) − f(baseline) by two forward passes; many steps for a small gap."""
    model, codes = make_model(**kind), make_codes(2)
    treatments = model.encode_treatments(model.treatments)
    method = IntegratedGradients(model.predictor(), steps=400, baseline=baseline)

    found = method(codes)

    assert found.gap_BT is not None
    for promoter in range(2):
        begin = method.baseline(codes[promoter])
        with torch.no_grad():
            first = model.model(torch.from_numpy(codes[promoter : promoter + 1]), treatments, begin[None])
        difference = found.predictions_BT[promoter] - first.numpy()[0]
        assert np.abs(difference).max() > 0.05
        assert np.abs(found.gap_BT[promoter]).max() < 0.03 * np.abs(difference).max()
        if baseline is AttributionBaseline.UNIFORM:
            sums = contributions(found.values_BTLA, codes)[promoter].sum(-1)
            np.testing.assert_allclose(sums + found.gap_BT[promoter], difference, atol=1e-4)
    coarse = IntegratedGradients(model.predictor(), steps=3, baseline=baseline)(codes)
    assert coarse.gap_BT is not None
    assert np.abs(coarse.gap_BT).max() > np.abs(found.gap_BT).max()


def test_baselines(make_model: Make, make_codes: Codes) -> None:
    model, codes = make_model(), make_codes(2)[1]

    def baseline(name: AttributionBaseline, seed: int = 0) -> np.ndarray:
        return IntegratedGradients(model.predictor(), baseline=name, seed=seed).baseline(codes).numpy()

    known = codes < 4
    np.testing.assert_array_equal(
        baseline(AttributionBaseline.UNIFORM), np.where(known, 0.25, 0)[:, None].repeat(4, 1)
    )
    assert not baseline(AttributionBaseline.ZEROS).any()
    shuffled = baseline(AttributionBaseline.DINUCLEOTIDE_SHUFFLED)
    np.testing.assert_allclose(shuffled.sum(1), known, atol=1e-6)
    counts = np.bincount(codes[known], minlength=4)
    np.testing.assert_allclose(shuffled.sum(0), counts, atol=1e-4)
    assert not np.array_equal(shuffled, baseline(AttributionBaseline.DINUCLEOTIDE_SHUFFLED, seed=1))
