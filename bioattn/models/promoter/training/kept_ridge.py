"""A simple model as a promoter model, whose folder every command reads."""

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.models.promoter.config import Conditioning, PromoterModelConfig
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.ridge_model import RidgeModel
from bioattn.models.promoter.training.baselines import Baseline
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.homology import canonical_columns


def as_promoter_model(
    simple: Baseline,
    vocabulary: TreatmentVocabulary,
    length: int,
    mean_T: NDArray[np.float64],
    sd_T: NDArray[np.float64],
) -> PromoterModel:
    """The model that predicts what `simple` does, in units of the responses.

    length: bases of a window. mean_T, sd_T: what the dataset's units are of the responses'.
    """
    linear = simple.model
    blocks = () if linear is None else linear.standardiser.blocks
    config = PromoterModelConfig(
        length=length,
        conditioning=Conditioning.RIDGE,
        unconditional=False,
        channels=len(vocabulary.names),
        pool=1,
        ridge_kmers=tuple(block.k for block in blocks),
    )
    model = PromoterModel(config, vocabulary)
    network = model.network
    assert isinstance(network, RidgeModel)
    offset_T = simple.predictions[0].astype(np.float64)
    if linear is not None:
        offset_T = linear.mean.astype(np.float64)
        sizes = [len(mean_F) for mean_F in linear.standardiser.means]
        parts = np.split(linear.coefficients.astype(np.float64), np.cumsum(sizes)[:-1])
        for number, (block, part_FT) in enumerate(zip(blocks, parts, strict=True)):
            added_FT = linear.standardiser.factors[number][:, None] * part_FT
            offset_T = offset_T - linear.standardiser.means[number] @ added_FT
            columns = canonical_columns(block.k) if block.canonical else np.arange(4**block.k)
            network.set_block(number, block.weights(length), added_FT[columns])
    network.offset_T.copy_(torch.from_numpy(offset_T))
    model.response_mean_T.copy_(torch.from_numpy(mean_T))
    model.response_sd_T.copy_(torch.from_numpy(sd_T))
    return model.eval()
