"""First weights from the training data: filters from k-mers, and `cross` from the best simple model.

Gradient descent finds the strongest motifs by itself and often never the rest: once some filters explain
something, the queries of all treatments turn to them. Counting finds every motif that shifts a response by much
more than chance, in seconds; training then learns its flanks, how its letters weigh and where it counts.

Few and noisy promoters let gradient descent learn the direction all treatments share and overfit before it
finds the rest. A ridge on distance-weighted k-mers, with a penalty per principal component of the responses,
does not have that trouble, and `cross` with one readout over a k-mer stem contains it: k-mer vectors and readers
are the two halves of the ridge's coefficients, and the weights over positions its distance weighting. Treatments
differ in how much of their weight a head leaves to the null key. So the treatments' readers are factored into
gates between 0 and 1, one for each treatment and head, and one reader for each head (semi-nonnegative matrix
factorisation, Ding, Li & Jordan 2010): a head starts as a programme of some treatments.

Shape suffixes: G genes, K k-mers, D directions of the responses, T treatments, C context channels, H heads, E
treatment channels, P bins.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import ndtri
from torch import nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import Contribution
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import decode
from bioattn.models.promoter.config import Readout
from bioattn.models.promoter.cross import CrossModel, LinearReadout, SharedReadout
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import ConvStem, KmerStem
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge, principal_directions
from bioattn.models.promoter.training.data import TargetScale
from bioattn.models.promoter.treatment_encoder import IdEncoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.kmers import distinct_kmers

LOGGER = logging.getLogger("bioattn")
Matrix: TypeAlias = NDArray[np.float64]

LENGTHS = (6, 8)
"""Of the k-mers: 8 bases are the core of most motifs; 6 are common enough to be counted in few promoters."""
MIN_GENES = 20
"""A k-mer has to be there in as many promoters, and absent from as many."""
CHANCE = 0.05
"""Chance that the first k-mer taken is one too many (Bonferroni over all k-mers and directions)."""
CLEAR_MOTIF = 0.4
"""Correlation of one k-mer's presence with a component of the responses: such motifs gradient descent finds."""
MAX_DIRECTIONS = 32
"""More treatments than this are summarised by their principal components, which carry less noise each."""
SHARE_OF_FILTERS = 0.5
"""The others stay random, for what counting misses."""
MATCH = 0.5
"""Weight of a base of the k-mer in its filter; the three other bases share the opposite."""
REST = 0.3
"""What the random weights beside the k-mer are multiplied by."""


class EnrichedKmer(NamedTuple):
    """A k-mer whose presence goes along with responses."""

    letters: str
    """It or its reverse complement: they count as one."""
    direction: int
    """The treatment, or principal component of the treatments, it goes along with most."""
    r: float
    """Correlation of its presence with what the k-mers before it leave of that response."""


def start_filters(model: PromoterModel, dataset: PromoterDataset) -> list[EnrichedKmer]:
    """Set up to half of the filters of a convolutional stem to k-mers of the training genes; returns those.

    Filters keep their random weights where the k-mers run out, and all of them in a model without such a stem.
    """
    stem = next((module for module in model.modules() if isinstance(module, ConvStem)), None)
    if stem is None:
        return []
    filters_F4K = stem.convolution.weight
    kernel = filters_F4K.shape[-1]
    data = BaselineData(dataset)
    found = enriched_kmers(
        data.codes[data.train],
        _directions(data.deviations),
        number=int(SHARE_OF_FILTERS * len(filters_F4K)),
        lengths=[length for length in LENGTHS if length <= kernel] or [kernel],
    )
    assert stem.convolution.bias is not None
    with torch.no_grad():
        for filter_4K, bias, kmer in zip(filters_F4K, stem.convolution.bias, found, strict=False):
            filter_4K *= REST
            first = (kernel - len(kmer.letters)) // 2
            filter_4K[:, first : first + len(kmer.letters)] = -MATCH / 3
            for position, letter in enumerate(kmer.letters, start=first):
                filter_4K["ACGT".index(letter), position] = MATCH
            bias.fill_(-MATCH * len(kmer.letters) / 2)
    LOGGER.info(
        f"{len(found)} of {len(filters_F4K)} filters start from k-mers that responses follow"
        + (f": {', '.join(kmer.letters for kmer in found[:6])}" + " …" * (len(found) > 6) if found else "")
    )
    return found


def strongest_kmer(data: BaselineData) -> float:
    """Largest correlation of the presence of a k-mer with a direction of the training responses; 0 without any."""
    codes = data.codes[data.train]
    found = enriched_kmers(codes, _directions(data.deviations), number=1)
    return max((abs(kmer.r) for kmer in found), default=0.0)


def enriched_kmers(
    codes_GL: NDArray[np.uint8], responses_GD: Matrix, *, number: int, lengths: Sequence[int] = LENGTHS
) -> list[EnrichedKmer]:
    """At most `number` k-mers, strongest first, by matching pursuit (Mallat & Zhang 1993).

    codes_GL: (genes, bases), A=0 C=1 G=2 T=3 N=4. responses_GD: (genes, directions), finite. The k-mer (present or
    absent, on either strand) that correlates most with any direction is taken, its share is subtracted from all of
    them, and so on until what is left could be chance.
    """
    kmers, present_GK = _presence(codes_GL, lengths)
    genes = len(codes_GL)
    if not kmers or not number:
        return []
    mean_K = np.asarray(present_GK.mean(axis=0)).ravel()
    sd_K = np.sqrt(mean_K * (1 - mean_K))
    residual_GD = responses_GD - responses_GD.mean(axis=0)
    sd_D = residual_GD.std(axis=0)
    residual_GD = residual_GD[:, sd_D > 0] / sd_D[sd_D > 0]
    directions = np.flatnonzero(sd_D > 0)
    if not directions.size:
        return []
    smallest_z = -ndtri(CHANCE / 2 / (len(kmers) * len(directions)))
    present_KG = present_GK.T.tocsr()
    z_KD = (present_KG @ residual_GD) / sd_K[:, None] / np.sqrt(genes)
    found = []
    for _ in range(number):
        best, direction = np.unravel_index(np.abs(z_KD).argmax(), z_KD.shape)
        z = float(z_KD[best, direction])
        if abs(z) < smallest_z:
            break
        found.append(EnrichedKmer(kmers[best], int(directions[direction]), z / genes**0.5))
        standard_G = (present_GK[:, [best]].toarray().ravel() - mean_K[best]) / sd_K[best]
        share_D = standard_G @ residual_GD / genes
        residual_GD = residual_GD - standard_G[:, None] * share_D
        # Mean 0 over genes, so that the means of the other k-mers play no part.
        overlap_K = (present_KG @ standard_G) / sd_K / np.sqrt(genes)
        z_KD -= overlap_K[:, None] * share_D
        z_KD[best] = 0
    return found


def _presence(codes_GL: NDArray[np.uint8], lengths: Sequence[int]) -> tuple[list[str], sparse.csc_matrix]:
    """The k-mers that are neither rare nor everywhere, and which genes hold them (genes, k-mers)."""
    genes = len(codes_GL)
    names, blocks = [], []
    for length in lengths:
        kmers, offsets = distinct_kmers(codes_GL, length)
        distinct, column, count = np.unique(kmers, return_inverse=True, return_counts=True)
        held = sparse.csr_matrix(
            (np.ones(len(kmers), dtype=np.float32), column, offsets), shape=(genes, len(distinct))
        )
        keep = (count >= MIN_GENES) & (count <= genes - MIN_GENES)
        blocks.append(held.tocsc()[:, keep])
        names += [_letters(kmer, length) for kmer in distinct[keep].tolist()]
    return names, sparse.csc_matrix(sparse.hstack(blocks))


def _directions(deviations_GT: NDArray[np.float32]) -> Matrix:
    """Standardised responses of the training genes, as (genes, directions)."""
    sd_T = deviations_GT.std(axis=0)
    standard_GT = (deviations_GT / np.where(sd_T > 0, sd_T, 1.0)).astype(np.float32)
    if standard_GT.shape[1] > MAX_DIRECTIONS:
        standard_GT = standard_GT @ principal_directions(standard_GT)[:, :MAX_DIRECTIONS]
    return standard_GT.astype(np.float64)


def _letters(kmer: int, length: int) -> str:
    """The k-mer of a code of `distinct_kmers`."""
    return decode(np.array([(kmer >> 2 * place) & 3 for place in reversed(range(length))], dtype=np.uint8))


@torch.no_grad()
def start_for_clear_motifs(model: PromoterModel) -> None:
    """Let the linear readers of treatments start at zero and heads in pairs, for data with a clear motif.

    With a number of the wrong sign at the start, attention learns to avoid a motif before the sign turns, and
    does not come back: contributions of one of four treatments of the demo had AUROC .41, .97 from zero. From a
    tenth of the size one of six treatments with opposites still had .32. In noisy data treatments learn to differ
    less from zero: five of yeast, without PC1, .137 against .196.

    The heads of a pair have the same keys and opposite queries, so that no treatment starts with all heads turned
    away from its motif: in one of twelve trainings on planted motifs it was found late, beside noise (AUPRC .27;
    .80 with pairs).
    """
    for module in model.modules():
        if isinstance(module, LinearReadout):
            nn.init.zeros_(module.linear_reader.weight)
            nn.init.zeros_(module.linear_reader.bias)
        elif isinstance(module, MultiHeadAttention):
            pairs = module.num_heads // 2
            for projection, sign in ((module.project_query, -1), (module.project_key, 1)):
                for weights in projection.parameters():
                    heads = weights.unflatten(0, (module.num_heads, -1))
                    heads[1::2] = sign * heads[::2][:pairs]


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

    Raises: BioattnError when the model is not `cross` with one linear readout over a stem with k-mers, or the task
    is not regression.
    """
    network, config = model.members[0].network, model.config
    stem = next((module for module in network.modules() if isinstance(module, KmerStem)), None)
    if not isinstance(network, CrossModel) or stem is None or not config.both_strands:
        raise BioattnError(
            "warm_start needs --conditioning cross, stem = kmer or both, and both_strands = true"
        )
    summed = config.readout is Readout.SHARED and config.contribution is Contribution.PRODUCT
    if not summed or network.position_curve is None or not config.sink:
        raise BioattnError(
            "warm_start needs --readout shared, position_bias = treatment, sink = true, reader = linear and "
            "one hop"
        )
    if dataset.task != "regression":
        raise BioattnError("warm_start needs a regression task")
    data = BaselineData(dataset)
    chosen = component_ridge(data, [config.kmer])
    ridge = chosen.model
    assert ridge is not None
    (added_KT,), _ = ridge.per_count()
    (standard,) = ridge.blocks
    coefficients_KT = added_KT / scale.sd_T

    # The ridge's distance weight at the middle of each bin, 0 outside the region it counts in.
    edges, block = np.array(config.bin_edges), standard.block
    middles_P = (edges[:-1] + edges[1:]) / 2 - edges[-1]  # from the window's right end
    bump_P = np.exp(-0.5 * np.square((middles_P - block.centre) / block.width))
    bump_P = np.where((middles_P >= block.start) & (middles_P < block.stop), bump_P, 0.0)
    positional = network.position_bias_HP is not None
    # Attention weights sum to 1, counts do not: the readers make up for the sum.
    total = float(bump_P.sum()) if positional else float(config.num_bins)
    vectors_KC, readers_TC = _halves(coefficients_KT, stem.vectors.embedding_dim)
    stem.vectors.weight[:-1] = torch.from_numpy(vectors_KC).float()
    readers_TC = np.pad(readers_TC, ((0, 0), (0, config.channels - stem.vectors.embedding_dim)))
    if network.position_bias_HP is not None:
        bias_P = np.maximum(np.log(np.maximum(bump_P, 1e-30)), FAINTEST_BIN)
        network.position_bias_HP.copy_(torch.from_numpy(bias_P).float().expand_as(network.position_bias_HP))
    for module in network.modules():
        if isinstance(module, MultiHeadAttention):
            nn.init.normal_(module.project_query.weight, std=QUERY_SPREAD)
            nn.init.zeros_(module.project_query.bias)
    design_TE = _start_embeddings(network, data, treatments)
    _set_heads(network, design_TE, vectors_KC, readers_TC, standard.mean_F, total)
    LOGGER.info(f"warm start from a component ridge on {chosen.choice}")


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


def _set_heads(
    network: CrossModel,
    design_TE: Matrix,
    vectors_KC: Matrix,
    readers_TC: Matrix,
    counts_K: NDArray[np.floating],
    total: float,
) -> None:
    """Give each head a reader and the treatments' gates.

    counts_K: mean of the ridge's counts over promoters, at which contributions shall sum to 0. total: sum of the
    weights over positions before they were scaled to 1.
    """
    (attention,) = network.hops
    assert network.position_bias_HP is not None
    assert network.position_curve is not None
    norm_C = np.pad(np.linalg.norm(vectors_KC, axis=0), (0, readers_TC.shape[1] - vectors_KC.shape[1]))
    gates_TH, programmes_HC = gated_programmes(readers_TC * norm_C, attention.num_heads)
    heads_HC = programmes_HC / np.where(norm_C > 0, norm_C, 1.0)
    attention.project_value.weight.copy_(torch.from_numpy(heads_HC * total))
    mean_C = counts_K @ vectors_KC
    attention.project_value.bias.copy_(torch.from_numpy(-heads_HC[:, : len(mean_C)] @ mean_C))
    # The logit of all positions together beside that of the null key, which starts at 0.
    wanted_TH = np.log(gates_TH / (1 - gates_TH))
    # Embeddings of features lie nearly in fewer dimensions; solving in the rest gives enormous readers.
    solved = torch.from_numpy(np.linalg.lstsq(design_TE, wanted_TH, rcond=0.03)[0]).float()
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
