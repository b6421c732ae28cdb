"""In-silico mutagenesis against a plain loop, over every kind of model."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from bioattn.interpret.attribution.mutagenesis import Mutagenesis
from bioattn.interpret.attribution.values import contributions
from bioattn.models.promoter.config import Conditioning, TreatmentEncoding
from bioattn.models.promoter.folder import LoadedPromoterModel

KINDS: list[dict[str, Any]] = [
    {},
    {"hops": 2, "sink": True},
    {"kernel": 15, "activation": "exponential", "attention_score": "gaussian"},
    {"kernel": 1, "pool": 7, "both_strands": False, "attention_score": "additive"},
    {"pool": 40, "kernel": 25, "value_layers": 2},
    {"pool": 1, "value_layers": 0, "attention_query": "uniform"},
    {"conditioning": Conditioning.CONCAT},
    {"conditioning": Conditioning.FILM},
    {"conditioning": Conditioning.CROSS_ALL},
    {"stem": "kmer"},
    {"stem": "kmer", "kmer": 4, "pool": 30, "both_strands": False, "attention_query": "shared"},
    {"treatment_encoder": TreatmentEncoding.FEATURES},
]


def plain_loop(model: LoadedPromoterModel, codes_BL: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One mutant at a time."""
    treatments = model.encode_treatments(model.treatments)

    def predict(codes_L: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model.model(torch.from_numpy(codes_L[None]), treatments)[0].numpy()

    predictions = np.array([predict(codes_L) for codes_L in codes_BL])
    values = np.zeros((len(codes_BL), treatments.size, codes_BL.shape[1], 4), dtype=np.float32)
    for b, codes_L in enumerate(codes_BL):
        for position, present in enumerate(codes_L):
            if present == 4:
                continue
            for base in range(4):
                mutant = codes_L.copy()
                mutant[position] = base
                values[b, :, position, base] = predict(mutant) - predictions[b]
            values[b, :, position] -= values[b, :, position].mean(-1, keepdims=True)
    return predictions, values


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_equals_a_plain_loop(
    kind: dict[str, Any],
    make_model: Callable[..., LoadedPromoterModel],
    make_codes: Callable[..., np.ndarray],
) -> None:
    model, codes = make_model(**kind), make_codes(2)
    wanted_predictions, wanted = plain_loop(model, codes)

    found = Mutagenesis(model, model.encode_treatments(model.treatments), batch_size=50)(codes)

    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(found.predictions_BT, wanted_predictions, atol=1e-5)
    np.testing.assert_allclose(found.values_BTLA, wanted, atol=1e-5)


def test_contribution_is_the_value_of_the_base_that_is_there(
    make_model: Callable[..., LoadedPromoterModel], make_codes: Callable[..., np.ndarray]
) -> None:
    model, codes = make_model(), make_codes(2)

    values = Mutagenesis(model, model.encode_treatments(model.treatments))(codes).values_BTLA

    found = contributions(values, codes)
    for promoter, position in ((0, 3), (1, 50), (1, codes.shape[1] - 1)):
        base = codes[promoter, position]
        wanted = values[promoter, :, position, base] if base < 4 else np.zeros(values.shape[1])
        np.testing.assert_array_equal(found[promoter, :, position], wanted)
    assert np.all(found[np.broadcast_to((codes == 4)[:, None], found.shape)] == 0)
