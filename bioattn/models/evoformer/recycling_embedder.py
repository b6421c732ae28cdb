"""Embeds the end of a pass into the next, recycling (AlphaFold 2 supplement, Algorithm 32).

Shape suffixes: R residues, C channels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.initial_weights import linear
from bioattn.models.evoformer.tiles import add_update

NUM_DISTANCE_BINS = 15
FIRST_EDGE, LAST_EDGE = 3.25, 20.75
"""Å: lower edges of the first and of the last bin."""
LARGEST_SQUARE = 1e8
"""Å²: upper edge of the last bin."""
TILE_ROWS = 16


class Recycled(NamedTuple):
    """The end of a pass; zeros before the first."""

    msa_first_row: Tensor
    """(R, C)"""
    pair: Tensor
    """(R, R, C)"""
    pseudo_beta: Tensor | None
    """(R, 3) Å, CB (CA of glycine); None for a model without structure module."""


class RecyclingEmbedder(nn.Module):
    """Layer norms of MSA row 0 and of the pairs, and the distances of the predicted structure.

    Zeros go through the layer norms too, which then give their offset: the first pass is not a model without this.
    """

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.normalise_msa_row = nn.LayerNorm(config.msa_channels)
        self.normalise_pair = nn.LayerNorm(config.pair_channels)
        self.project_distances = (
            linear(NUM_DISTANCE_BINS, config.pair_channels) if config.structure_module else None
        )

    def forward(self, msa_SRC: Tensor, pair_RRC: Tensor, recycled: Recycled) -> tuple[Tensor, Tensor]:
        """The representations plus the recycled ones; the MSA gets them in its first row. Pairs change in place
        without autograd, the MSA always."""
        msa_SRC[0] += self.normalise_msa_row(recycled.msa_first_row.float())
        bins_RR = None if recycled.pseudo_beta is None else distance_bins(recycled.pseudo_beta)

        def update(_part: Tensor, rows: slice) -> Tensor:
            pair_TRC: Tensor = self.normalise_pair(recycled.pair[rows].float())
            return pair_TRC if bins_RR is None else pair_TRC + self._embed_distances(bins_RR[rows])

        return msa_SRC, add_update(pair_RRC, update, TILE_ROWS)

    def _embed_distances(self, bins: Tensor) -> Tensor:
        assert self.project_distances is not None
        # A pair in no bin (closer than the first edge) has a one-hot of zeros.
        table = F.pad(self.project_distances.weight.t(), (0, 0, 0, 1)) + self.project_distances.bias
        return F.embedding(bins, table)


def distance_bins(positions_R3: Tensor) -> Tensor:
    """(R, R) int64: the bin of each distance; 15 = no bin. A distance exactly on an edge has no bin."""
    edges = torch.linspace(FIRST_EDGE, LAST_EDGE, NUM_DISTANCE_BINS, device=positions_R3.device).square()
    square_RR = (positions_R3[:, None] - positions_R3[None, :]).square().sum(-1)
    below_RR = torch.bucketize(square_RR, edges)
    on_edge_RR = below_RR != torch.bucketize(square_RR, edges, right=True)
    outside_RR = (below_RR == 0) | on_edge_RR | (square_RR >= LARGEST_SQUARE)
    return torch.where(outside_RR, NUM_DISTANCE_BINS, below_RR - 1)
