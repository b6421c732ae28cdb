"""Starting `cross` from the best simple model of the same training genes, in closed form.

Few and noisy promoters let gradient descent learn the direction all treatments share and overfit before it
finds the rest. A ridge on distance-weighted k-mers, with a penalty per principal component of the responses,
does not have that trouble, and `cross` over a k-mer stem contains it: k-mer vectors and the treatments' readers
are the two halves of the ridge's coefficients, and the weights over positions its distance weighting.

With a shared readout, treatments differ in how much of their weight a head leaves to the null key. So the readers
are factored into gates between 0 and 1, one for each treatment and head, and one reader for each head (semi-
nonnegative matrix factorisation, Ding, Li & Jordan 2010): a head starts as a programme of some treatments.

Shape suffixes: K k-mers, T treatments, C context channels, H heads, E treatment channels, P bins.
"""

import logging
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.errors import BioattnError
from bioattn.models.promoter.config import Readout
from bioattn.models.promoter.cross import CrossModel, SharedReadout
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import KmerStem
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge, principal_directions
from bioattn.models.promoter.training.data import TargetScale
from bioattn.models.promoter.training.ridge import Kmers
from bioattn.models.promoter.treatment_encoder import IdEncoder, TreatmentReadout
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.dataset import PromoterDataset

LOGGER = logging.getLogger("bioattn")
Matrix: TypeAlias = NDArray[np.float64]

GATES = (0.02, 0.9)
"""Lowest and highest first share of a head's weight that does not go to the null key: none is out of reach."""
ROUNDS = 30
"""Turns of the factorisation into gates and programmes; it changes little after ten."""
FAINTEST_BIN = -8.0
"""Lowest initial position bias: a bin far from the bump still gets a gradient."""
QUERY_SPREAD = 0.002
"""Standard deviation of the first query weights: questions start nearly alike and grow apart only if that pays."""


@torch.no_grad()
def warm_start(
    model: PromoterModel, dataset: PromoterDataset, treatments: TreatmentBatch, scale: TargetScale
) -> None:
    """Set the weights of `model` so that it answers what the component ridge of its k-mers would.

    treatments: the training treatments, encoded. scale: the model's standard units.
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
    shared = config.readout == Readout.SHARED
    if shared and (network.position_curve is None or not config.sink or config.integrates_gradients):
        raise BioattnError(
            "warm_start with --readout shared needs --position-bias treatment, sink = true, reader = linear and "
            "one hop"
        )
    if not shared and config.num_heads * config.head_channels != config.channels:
        raise BioattnError(
            f"warm_start needs num_heads × head_channels = channels, here {config.num_heads} × "
            f"{config.head_channels} and {config.channels}"
        )
    if dataset.task != "regression":
        raise BioattnError("warm_start needs a regression task")
    data = BaselineData(dataset)
    chosen = component_ridge(data, [config.kmer])
    ridge = chosen.model
    assert ridge is not None
    (block,) = ridge.standardiser.blocks
    coefficients_KT = ridge.standardiser.factors[0][:, None] * ridge.coefficients / scale.sd_T
    offset_T = (ridge.mean - scale.mean_T) / scale.sd_T - ridge.standardiser.means[0] @ coefficients_KT

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
            if shared:
                continue
            for projection in (module.project_value, module.project_output):
                assert isinstance(projection, nn.Linear)
                nn.init.eye_(projection.weight)
                nn.init.zeros_(projection.bias)
    design_TE = _start_embeddings(network, data, treatments)
    if shared:
        _set_heads(network, design_TE, vectors_KC, readers_TC, ridge.standardiser.means[0], total)
    else:
        readers_TC = readers_TC * total * np.sqrt(config.channels)
        _set_readers(network, design_TE, readers_TC, offset_T.astype(np.float64))
    LOGGER.info(f"warm start from a component ridge on {chosen.choice}")


def _bump_of_bins(edges: tuple[int, ...], block: Kmers) -> Matrix:
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


def _start_embeddings(network: CrossModel, data: BaselineData, treatments: TreatmentBatch) -> Matrix:
    """Embeddings of the treatments with a column of ones, (T, E + 1); those known by id are set to their principal
    components."""
    encoder = network.treatment_encoder.encoder
    if isinstance(encoder, IdEncoder):
        directions_TE = principal_directions(data.deviations)[:, : encoder.tokens_TMC.shape[-1]]
        scaled_TE = torch.from_numpy(directions_TE * np.sqrt(len(directions_TE))).float()
        encoder.tokens_TMC.zero_()
        encoder.tokens_TMC[:, 0, : scaled_TE.shape[1]] = scaled_TE
    embeddings_TE = network.treatment_encoder(treatments).double().cpu().numpy()
    return np.hstack([embeddings_TE, np.ones((len(embeddings_TE), 1))])


def _solved(design_TE: Matrix, wanted_TX: Matrix) -> torch.Tensor:
    """The linear map (E + 1, X) from embeddings to what is wanted of the treatments, by least squares."""
    # Embeddings of features lie nearly in fewer dimensions; solving in the rest gives enormous readers.
    return torch.from_numpy(np.linalg.lstsq(design_TE, wanted_TX, rcond=0.03)[0]).float()


def _set_readers(network: CrossModel, design_TE: Matrix, readers_TC: Matrix, offset_T: Matrix) -> None:
    solved = _solved(design_TE, np.hstack([readers_TC, offset_T[:, None]]))
    readout = network.readout
    assert isinstance(readout, TreatmentReadout)
    readout.linear_reader.weight.copy_(solved[:-1, :-1].T)
    readout.linear_reader.bias.copy_(solved[-1, :-1])
    readout.offset.weight.copy_(solved[:-1, -1:].T)
    readout.offset.bias.copy_(solved[-1, -1:])
    readout.hidden_reader.weight.zero_()
    readout.hidden_reader.bias.zero_()


def _set_heads(
    network: CrossModel,
    design_TE: Matrix,
    vectors_KC: Matrix,
    readers_TC: Matrix,
    counts_K: NDArray[np.floating],
    total: float,
) -> None:
    """Give each head of a shared readout a reader and the treatments' gates.

    counts_K: mean of the ridge's counts over promoters, at which contributions shall sum to 0. total: sum of the
    weights over positions before they were scaled to 1.
    """
    (attention,) = network.hops
    assert isinstance(attention, MultiHeadAttention)
    assert network.position_bias_HP is not None
    assert network.position_curve is not None
    norm_C = np.pad(np.linalg.norm(vectors_KC, axis=0), (0, readers_TC.shape[1] - vectors_KC.shape[1]))
    gates_TH, programmes_HC = gated_programmes(readers_TC * norm_C, attention.num_heads)
    heads_HC = programmes_HC / np.where(norm_C > 0, norm_C, 1.0)
    attention.project_value.weight.copy_(torch.from_numpy(heads_HC * total))
    mean_C = counts_K @ vectors_KC
    attention.project_value.bias.copy_(torch.from_numpy(-heads_HC[:, : len(mean_C)] @ mean_C))
    # The logit of all positions together beside that of the null key, which starts at 0.
    solved = _solved(design_TE, np.log(gates_TH / (1 - gates_TH)))
    network.position_curve.heights.weight.copy_(
        solved[:-1].T.repeat_interleave(len(network.position_curve.share_KP), dim=0)
    )
    bias_HP = network.position_bias_HP
    bias_HP.copy_(bias_HP - bias_HP.logsumexp(1, keepdim=True) + solved[-1][:, None])
    assert isinstance(network.readout, SharedReadout)
    nn.init.zeros_(network.readout.hidden.weight)
    nn.init.zeros_(network.readout.hidden.bias)


def gated_programmes(readers_TC: Matrix, number: int) -> tuple[Matrix, Matrix]:
    """Gates (T, H) in `GATES` and programmes (H, C) whose product is close to the readers, H = `number`.

    They are solved for in turn, from the positive and the negative parts of the principal components.
    """
    left_TR, values_R, _ = np.linalg.svd(readers_TC, full_matrices=False)
    scores_TR = left_TR * values_R
    parts_TH = np.stack([np.maximum(scores_TR, 0), np.maximum(-scores_TR, 0)], axis=2).reshape(
        len(scores_TR), -1
    )
    # Of all parts the largest; heads beyond them start alike for all treatments.
    largest = np.argsort(-np.linalg.norm(parts_TH, axis=0), kind="stable")[:number]
    gates_TH = np.pad(parts_TH[:, largest], ((0, 0), (0, number - len(largest))), constant_values=1.0)
    for _ in range(ROUNDS):
        programmes_HC = np.linalg.lstsq(gates_TH, readers_TC, rcond=None)[0]
        gates_TH = np.stack([nnls(programmes_HC.T, reader_C)[0] for reader_C in readers_TC])
    highest_H = gates_TH.max(axis=0)
    gates_TH = np.clip(gates_TH / np.where(highest_H > 0, highest_H, 1.0) * GATES[1], *GATES)
    return gates_TH, np.linalg.lstsq(gates_TH, readers_TC, rcond=None)[0]
