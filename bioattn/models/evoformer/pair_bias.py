"""The bias that attention logits get from the pair representation (AlphaFold 2 supplement, Algorithms 7, 13, 14).

Shape suffixes: R residues, C channels, H heads.
"""

import torch
from torch import Tensor, nn

from bioattn.models.evoformer.projection import Projection
from bioattn.models.evoformer.tiles import tiles

TILE_ROWS = 16


def pair_bias(pair_RRC: Tensor, normalise: nn.LayerNorm, project: Projection) -> Tensor:
    """A projection of the LayerNormed pairs to one number per head: (H, R, R)."""
    if torch.is_grad_enabled():
        projected: Tensor = project(normalise(pair_RRC))
        return projected.movedim(-1, 0)
    bias_HRR = pair_RRC.new_empty(project.out_features, *pair_RRC.shape[:2], dtype=project.weight.dtype)
    for rows in tiles(len(pair_RRC), TILE_ROWS):
        bias_HRR[:, rows] = project(normalise(pair_RRC[rows])).movedim(-1, 0)
    return bias_HRR
