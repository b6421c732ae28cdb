"""What enters the stacks: features, extra MSA, the pass before (AlphaFold 2 supplement, Algorithms 2 to 5 and 32).

Shape suffixes: S MSA rows, E extra MSA rows, R residues, C channels, F features.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.projection import linear
from bioattn.models.evoformer.tiled_layers import add_update

TILE_ROWS = 16


class InputEmbedder(nn.Module):
    """Pairs sum embeddings of the two residues and of their distance in the chain; MSA cells sum embeddings of the
    row's features and of the target residue."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.max_relative_position = config.max_relative_position
        self.project_target_left = linear(config.target_features, config.pair_channels)
        self.project_target_right = linear(config.target_features, config.pair_channels)
        self.project_target_msa = linear(config.target_features, config.msa_channels)
        self.project_msa = linear(config.msa_features, config.msa_channels)
        self.project_relative_position = linear(2 * config.max_relative_position + 1, config.pair_channels)
        self.project_pair_features = (
            linear(config.pair_features, config.pair_channels) if config.pair_features else None
        )

    def forward(self, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """MSA (S, R, C) and pair (R, R, C) representation.

        Raises: ValueError when the model has pair features and the inputs have none, or the other way round.
        """
        msa_SRC = self.project_msa(inputs.msa_feat) + self.project_target_msa(inputs.target_feat)
        pair_RRC = (
            self.project_target_left(inputs.target_feat)[:, None]
            + self.project_target_right(inputs.target_feat)[None, :]
        )
        pair_RRC = self._add_relative_position(pair_RRC, inputs.residue_index)
        if (self.project_pair_features is None) != (inputs.pair_feat is None):
            raise ValueError("pair features must be given exactly when the model's config has some")
        if self.project_pair_features is not None:
            pair_RRC += self.project_pair_features(inputs.pair_feat)
        return msa_SRC, pair_RRC

    def _add_relative_position(self, pair_RRC: Tensor, residue_index_R: Tensor) -> Tensor:
        """Algorithm 4: i − j, clipped, as one-hot, projected."""
        limit = self.max_relative_position
        projection = self.project_relative_position
        columns = projection.weight.t() + projection.bias

        def update(_part: Tensor, rows: slice) -> Tensor:
            offset_TR = residue_index_R[rows, None] - residue_index_R[None, :]
            # The columns of the weight looked up: no one-hot tensor is made.
            return F.embedding(offset_TR.clamp(-limit, limit) + limit, columns)

        return add_update(pair_RRC, update, TILE_ROWS)


NUM_CLASSES = 23
"""20 amino acids, unknown, gap, mask."""


class ExtraMsaEmbedder(nn.Module):
    """A linear layer on 25 features: one-hot of the residue (23), whether and how much was deleted before it."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.project_extra_msa = linear(NUM_CLASSES + 2, config.extra_msa_channels)

    def forward(self, extra_msa_ER: Tensor, has_deletion_ER: Tensor, deletion_value_ER: Tensor) -> Tensor:
        """(E, R, C); extra_msa_ER: int64 0..22."""
        columns = self.project_extra_msa.weight.t()
        # Columns of the weight looked up: thousands of rows times 25 features would be larger than the result.
        embedded_ERC = F.embedding(extra_msa_ER, columns[:NUM_CLASSES] + self.project_extra_msa.bias)
        embedded_ERC.addcmul_(has_deletion_ER.unsqueeze(-1), columns[NUM_CLASSES])
        return embedded_ERC.addcmul_(deletion_value_ER.unsqueeze(-1), columns[NUM_CLASSES + 1])


NUM_DISTANCE_BINS = 15
FIRST_EDGE, LAST_EDGE = 3.25, 20.75
"""Å: lower edges of the first and of the last bin."""
LARGEST_SQUARE = 1e8
"""Å²: upper edge of the last bin."""


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


def distance_bins(
    positions_R3: Tensor,
    rows: slice = slice(None),
    num_bins: int = NUM_DISTANCE_BINS,
    last: float = LAST_EDGE,
) -> Tensor:
    """(P, R) int64: bins of the distances of some residues to all; `num_bins` = none, so on an edge exactly."""
    edges = torch.linspace(FIRST_EDGE, last, num_bins, device=positions_R3.device).square()
    square_RR = (positions_R3[rows, None] - positions_R3[None, :]).square().sum(-1)
    below_RR = torch.bucketize(square_RR, edges)
    on_edge_RR = below_RR != torch.bucketize(square_RR, edges, right=True)
    outside_RR = (below_RR == 0) | on_edge_RR | (square_RR >= LARGEST_SQUARE)
    return torch.where(outside_RR, num_bins, below_RR - 1)
