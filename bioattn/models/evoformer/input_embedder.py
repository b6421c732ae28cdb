"""From features to the first MSA and pair representation (AlphaFold 2 supplement, Algorithms 3, 4 and 5).

Shape suffixes: S MSA rows, R residues, C channels, F features.
"""

import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.initial_weights import linear
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.tiles import add_update

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
