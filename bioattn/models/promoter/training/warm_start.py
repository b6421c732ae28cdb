"""Starting `cross` from the best simple model of the same training genes, in closed form.

Few and noisy promoters let gradient descent learn the direction all treatments share and overfit before it
finds the rest. A ridge on distance-weighted k-mers, with a penalty per principal component of the responses,
does not have that trouble, and `cross` over a k-mer stem contains it: k-mer vectors and the treatments' readers
are the two halves of the ridge's coefficients, and the weights over positions its distance weighting.

Shape suffixes: K k-mers, T treatments, C context channels, E treatment channels, P bins.
"""

import logging
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.errors import BioattnError
from bioattn.models.promoter.config import Readout
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import KmerStem
from bioattn.models.promoter.training.baselines import (
    BaselineData,
    best_ridge,
    by_component,
    kmer_bumps,
    principal_directions,
)
from bioattn.models.promoter.training.ridge import BumpKmers
from bioattn.models.promoter.treatment_encoder import IdEncoder, TreatmentReadout
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.dataset import PromoterDataset

LOGGER = logging.getLogger("bioattn")
Matrix: TypeAlias = NDArray[np.float64]

FAINTEST_BIN = -8.0
"""Lowest initial position bias: a bin far from the bump still gets a gradient."""
QUERY_SPREAD = 0.002
"""Standard deviation of the first query weights: questions start nearly alike and grow apart only if that pays."""


@torch.no_grad()
def warm_start(
    model: PromoterModel, dataset: PromoterDataset, treatments: TreatmentBatch, mean: float, sd: float
) -> str:
    """Set the weights of `model` so that it answers what the ridge would; returns what the ridge chose.

    treatments: the training treatments, encoded. mean, sd: the model's standard units in the dataset's.
    Beside filters (stem = both), k-mers alone answer at first: the readers of the filters' channels start at zero.

    Raises: BioattnError when the model is not `cross` over a stem with k-mers and with as many head as model
    channels, or the task is not regression.
    """
    network = model.network
    config = model.config
    stem = next((module for module in network.modules() if isinstance(module, KmerStem)), None)
    if not isinstance(network, CrossModel) or stem is None or not config.both_strands:
        raise BioattnError(
            "warm_start needs --conditioning cross, stem = kmer or both, and both_strands = true"
        )
    if config.readout != Readout.OWN:
        raise BioattnError(f"warm_start is for --readout own, not {config.readout}")
    if config.num_heads * config.head_channels != config.channels:
        raise BioattnError(
            f"warm_start needs num_heads × head_channels = channels, here {config.num_heads} × "
            f"{config.head_channels} and {config.channels}"
        )
    if dataset.task != "regression":
        raise BioattnError("warm_start needs a regression task")
    data = BaselineData(dataset)
    ridge, choice = best_ridge(data, kmer_bumps(data, config.kmer), by_component)
    (block,) = ridge.standardiser.blocks
    assert isinstance(block, BumpKmers)
    coefficients_KT = ridge.standardiser.factors[0][:, None] * ridge.coefficients / sd
    offset_T = (ridge.mean - mean) / sd - ridge.standardiser.means[0] @ coefficients_KT

    bump_P = _bump_of_bins(config.bin_edges, block)
    positional = network.position_bias_HP is not None
    # Attention weights sum to 1, counts do not: the readers make up for the sum.
    total = float(bump_P.sum()) if positional else float(config.num_bins)
    vectors_KC, readers_TC = _halves(coefficients_KT.astype(np.float64), stem.vectors.embedding_dim)
    stem.vectors.weight[:-1] = torch.from_numpy(vectors_KC).float()
    readers_TC = np.pad(readers_TC, ((0, 0), (0, config.channels - stem.vectors.embedding_dim)))
    if network.position_bias_HP is not None:
        bias_P = np.maximum(np.log(np.maximum(bump_P, 1e-30)), FAINTEST_BIN)
        network.position_bias_HP.copy_(torch.from_numpy(bias_P).float().expand_as(network.position_bias_HP))
    for module in network.mixer.modules():
        if isinstance(module, nn.GroupNorm):  # the mixer starts as the identity
            module.weight.zero_()
            module.bias.zero_()
    for module in network.modules():
        if isinstance(module, MultiHeadAttention):
            nn.init.normal_(module.project_query.weight, std=QUERY_SPREAD)
            nn.init.zeros_(module.project_query.bias)
            for projection in (module.project_value, module.project_output):
                assert isinstance(projection, nn.Linear)
                nn.init.eye_(projection.weight)
                nn.init.zeros_(projection.bias)
    _set_readers(
        network, data, treatments, readers_TC * total * np.sqrt(config.channels), offset_T.astype(np.float64)
    )
    LOGGER.info(f"warm start from a component ridge on {choice}")
    return choice


def _bump_of_bins(edges: tuple[int, ...], block: BumpKmers) -> Matrix:
    """The ridge's distance weight at the middle of each bin, 0 outside the region it counts in."""
    middles_P = (np.array(edges[:-1]) + np.array(edges[1:])) / 2 - edges[-1]  # from the window's right end
    bump_P: Matrix = np.exp(-0.5 * np.square((middles_P - block.centre) / block.width))
    return np.where((middles_P >= block.start) & (middles_P < block.stop), bump_P, 0.0)


def _halves(coefficients_KT: Matrix, channels: int) -> tuple[Matrix, Matrix]:
    """Vectors (K, C) with a root mean square of 1 and readers (T, C) whose product is the best of that rank."""
    left_KR, values_R, right_RT = np.linalg.svd(coefficients_KT, full_matrices=False)
    rank = min(channels, len(values_R))
    vectors_KC = np.zeros((coefficients_KT.shape[0], channels))
    readers_TC = np.zeros((coefficients_KT.shape[1], channels))
    vectors_KC[:, :rank] = left_KR[:, :rank] * np.sqrt(values_R[:rank])
    readers_TC[:, :rank] = right_RT[:rank].T * np.sqrt(values_R[:rank])
    size = max(float(np.sqrt(np.square(vectors_KC).mean())), 1e-12)
    return vectors_KC / size, readers_TC * size


def _set_readers(
    network: CrossModel, data: BaselineData, treatments: TreatmentBatch, readers_TC: Matrix, offset_T: Matrix
) -> None:
    """Treatments known by id start at their principal components; the readers are then solved for."""
    encoder = network.treatment_encoder.encoder
    if isinstance(encoder, IdEncoder):
        directions_TE = principal_directions(data.deviations)[:, : encoder.tokens_TMC.shape[-1]]
        scaled_TE = torch.from_numpy(directions_TE * np.sqrt(len(directions_TE))).float()
        encoder.tokens_TMC.zero_()
        encoder.tokens_TMC[:, 0, : scaled_TE.shape[1]] = scaled_TE
    embeddings_TE = network.treatment_encoder(treatments).double().cpu().numpy()
    design = np.hstack([embeddings_TE, np.ones((len(embeddings_TE), 1))])
    wanted = np.hstack([readers_TC, offset_T[:, None]])
    # Embeddings of features lie nearly in fewer dimensions; solving in the rest gives enormous readers.
    solved = torch.from_numpy(np.linalg.lstsq(design, wanted, rcond=0.03)[0]).float()
    readout = network.readout
    assert isinstance(readout, TreatmentReadout)
    readout.linear_reader.weight.copy_(solved[:-1, :-1].T)
    readout.linear_reader.bias.copy_(solved[-1, :-1])
    readout.offset.weight.copy_(solved[:-1, -1:].T)
    readout.offset.bias.copy_(solved[-1, -1:])
    readout.hidden_reader.weight.zero_()
    readout.hidden_reader.bias.zero_()
