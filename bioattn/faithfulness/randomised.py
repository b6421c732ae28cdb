"""The same model before any training: maps that survive this tell of the architecture, not of what was learned
(Adebayo et al. 2018, Sanity checks for saliency maps)."""

from dataclasses import replace

import torch

from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import make_promoter_model


def with_random_weights(model: LoadedPromoterModel, seed: int) -> LoadedPromoterModel:
    """`model` with the weights it might have begun with; torch's random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = make_promoter_model(model.config, model.vocabulary)
    return replace(model, model=fresh.to(model.device).eval())
