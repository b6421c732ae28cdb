"""Small models in memory with random weights, and promoters of which one is short."""

from typing import Any

import numpy as np
import pytest

from bioattn.checks.engine import CheckSettings
from bioattn.checks.promoters import PromoterProbe
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.promoters.treatments import named_treatments
from tests.making import untrained_model

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


@pytest.fixture
def make_model():
    """An untrained model whose parameters are spread out, so that its treatments differ."""

    def make(seed=0, task="regression", **settings):
        # Without contributions where no readout is asked for: weights are what is checked then.
        reader = {} if "readout" in settings else {"reader": "hidden"}
        config = PromoterModelConfig(**{**SMALL, **reader, **settings})
        return untrained_model(config, named_treatments(TREATMENTS), task=task, seed=seed, spread=0.5)

    return make


@pytest.fixture
def codes():
    """25 promoters; the second lacks its first 20 bases, the third has one N."""
    drawn = np.random.default_rng(0).integers(0, 4, (25, LENGTH), dtype=np.uint8)
    drawn[1, :20] = 4
    drawn[2, 30] = 4
    return drawn


def probe_of(model, codes):
    """A probe of all treatments, without files."""
    return PromoterProbe(
        inputs="promoters.fa",
        ids=[str(row) for row in range(len(codes))],
        sha256="",
        settings=CheckSettings(mutated=25, probed=4),
        model=model,
        predictor=model.predictor(),
        codes=codes,
        genes=None,
        untrained=model,
        evaluation=None,
        controls=[],
        train_control=None,
        probed=[0, 1, 2, 3],
    )
