"""Contact maps of whole families while a model is trained and judged, made as `bioattn run evoformer` does."""

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.models.evoformer.alignment_inputs import AlignmentInputs
from bioattn.models.evoformer.distogram import contact_probabilities
from bioattn.models.evoformer.input_settings import InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.families import TrainingFamily
from bioattn.structures.contact_metrics import ContactScores, contact_scores


def predict_contacts(
    model: EvoformerModel, family: TrainingFamily, settings: InputSettings, *, seed: int = 0
) -> NDArray[np.float32]:
    """Contact probabilities (C, C) of the columns `family.columns`, row 1 as target, the mean over draws."""
    inputs = AlignmentInputs(
        encoded=family.protein.encoded(),
        columns=family.columns,
        settings=settings,
        weights=family.weights if settings.weighted_rows else None,
        pair_feat=family.covariance if model.config.pair_features else None,
    )
    device = next(model.parameters()).device
    total = np.zeros((len(family.columns), len(family.columns)), np.float32)
    for number in range(settings.num_samples):
        with torch.no_grad():
            logits = model(inputs.sample(seed, number).to(device)).distogram_logits
        assert logits is not None
        total += contact_probabilities(logits).cpu().numpy() / settings.num_samples
    return total


def score_family(model: EvoformerModel, family: TrainingFamily, settings: InputSettings) -> ContactScores:
    """Precision of the contacts predicted for a family."""
    return contact_scores(predict_contacts(model, family, settings), family.protein.cb, family.columns)
