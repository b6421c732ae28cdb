"""The same model with random weights: maps that stay alike come from the architecture, not from training
(Adebayo et al. 2018, Sanity checks for saliency maps)."""

from dataclasses import replace

import torch

from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import make_promoter_model


def with_random_weights(model: LoadedPromoterModel, seed: int) -> LoadedPromoterModel:
    """Copy of `model` with new random first weights; torch's random state does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = make_promoter_model(model.config, model.vocabulary)
    return replace(model, model=fresh.to(model.device).eval())
