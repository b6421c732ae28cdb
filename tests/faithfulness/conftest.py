"""Small models in memory with random weights, and promoters of which one is short."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import make_promoter_model
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import named_treatments

LENGTH = 60
TREATMENTS = ["heat", "salt", "rapamycin", "galactose"]
SMALL: dict[str, Any] = {
    "length": LENGTH,
    "channels": 8,
    "kernel": 5,
    "pool": 6,
    "treatment_channels": 8,
    "num_heads": 2,
    "head_channels": 4,
    "hidden_channels": 8,
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_model() -> Callable[..., LoadedPromoterModel]:
    """An untrained model whose parameters are spread out, so that its treatments differ."""

    def make(seed: int = 0, task: str = "regression", **settings: Any) -> LoadedPromoterModel:
        config = PromoterModelConfig(**{**SMALL, **settings})
        table = named_treatments(TREATMENTS)
        vocabulary = TreatmentVocabulary.learn(table, encoding=config.treatment_encoder, unconditional=True)
        torch.manual_seed(seed)
        model = make_promoter_model(config, vocabulary)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.5 * torch.randn_like(parameter)
        return LoadedPromoterModel(
            model=model.eval(),
            vocabulary=vocabulary,
            treatments=table,
            task=task,  # type: ignore[arg-type]
            reference=None,
            device=torch.device("cpu"),
            sha256="0" * 64,
        )

    return make


@pytest.fixture
def codes() -> np.ndarray:
    """25 promoters; the second lacks its first 20 bases, the third has one N."""
    drawn = np.random.default_rng(0).integers(0, 4, (25, LENGTH), dtype=np.uint8)
    drawn[1, :20] = 4
    drawn[2, 30] = 4
    return drawn
