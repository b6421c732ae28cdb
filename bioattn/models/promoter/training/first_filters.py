"""Starting the first layer's filters from the k-mers that the responses follow.

Gradient descent finds the strongest motifs by itself and often never the rest: once some filters explain
something, the queries of all treatments turn to them. Counting finds every motif that shifts a response by much
more than chance, in seconds; training then learns its flanks, how its letters weigh and where it counts.

Shape suffixes: G genes, K k-mers, D directions of the responses.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import norm

from bioattn.formats.nucleotides import decode
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import ConvStem
from bioattn.models.promoter.training.baselines import BaselineData, principal_directions
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.homology import distinct_kmers

LOGGER = logging.getLogger("bioattn")
Matrix: TypeAlias = NDArray[np.float64]

LENGTHS = (6, 8)
"""Of the k-mers: 8 bases are the core of most motifs; 6 are common enough to be counted in few promoters."""
MIN_GENES = 20
"""A k-mer has to be there in as many promoters, and absent from as many."""
CHANCE = 0.05
"""Chance that the first k-mer taken is one too many (Bonferroni over all k-mers and directions)."""
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
    z: float
    """Correlation × √genes of its presence with what the k-mers before it leave of that response."""


def start_filters(model: PromoterModel, dataset: PromoterDataset) -> list[EnrichedKmer]:
    """Set up to half of the filters of a convolutional stem to k-mers of the training genes; returns those.

    Filters keep their random weights where the k-mers run out, and all of them in a model without such a stem.
    """
    stem = next((module for module in model.network.modules() if isinstance(module, ConvStem)), None)
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
    return max((abs(kmer.z) / len(codes) ** 0.5 for kmer in found), default=0.0)


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
    smallest_z = norm.isf(CHANCE / 2 / (len(kmers) * len(directions)))
    present_KG = present_GK.T.tocsr()
    z_KD = (present_KG @ residual_GD) / sd_K[:, None] / np.sqrt(genes)
    found = []
    for _ in range(number):
        best, direction = np.unravel_index(np.abs(z_KD).argmax(), z_KD.shape)
        z = float(z_KD[best, direction])
        if abs(z) < smallest_z:
            break
        found.append(EnrichedKmer(kmers[best], int(directions[direction]), z))
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
