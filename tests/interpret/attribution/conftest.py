"""Small untrained models in memory, and promoters with and without N."""

import numpy as np
import pytest
import torch

from bioattn.models.promoter.config import PromoterModelConfig
from tests.inference.conftest import TABLE
from tests.making import untrained_model

LENGTH = 70


@pytest.fixture
def make_model():
    """An untrained model whose every parameter is random, so that no term of a sum is missed by being 0 or 1."""

    def make(task="regression", **settings):
        small = {
            "length": LENGTH,
            "channels": 8,
            "kernel": 7,
            "treatment_channels": 8,
            "num_heads": 2,
            "head_channels": 4,
            "hidden_channels": 8,
            "kmer": 3,
            "concat_channels": (8, 8),
            "concat_kernels": (9, 3),
            "concat_pools": (7, 2),
            "concat_condition_channels": 8,
            "concat_hidden": (8, 8, 8),
        }
        config = PromoterModelConfig(**{**small, **settings})
        loaded = untrained_model(config, TABLE, task=task, spread=0.3)
        loaded.model.members[0].response_mean_T += torch.randn_like(loaded.model.members[0].response_mean_T)
        loaded.model.members[0].response_sd_T *= 1 + torch.rand_like(loaded.model.members[0].response_sd_T)
        return loaded

    return make


@pytest.fixture
def make_codes():
    """Random promoters; the second begins with N, as a short one does, and has one N within."""

    def make(number=2, length=LENGTH, seed=0):
        codes = np.random.default_rng(seed).integers(0, 4, (number, length), dtype=np.uint8)
        if number > 1:
            codes[1, : length // 5] = 4
            codes[1, length // 2] = 4
        return codes

    return make
