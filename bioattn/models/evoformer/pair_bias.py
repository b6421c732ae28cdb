"""The bias that attention logits get from the pair representation (AlphaFold 2 supplement, Algorithms 7, 13, 14).

Shape suffixes: R residues, C channels, H heads.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.projection import Projection
from bioattn.models.evoformer.tiled_layers import map_tiled

TILE_ELEMENTS = 1 << 19
"""Pair elements of a tile: 16 rows of 256 residues with 128 channels, 2 MB besides their LayerNorm of 2 MB."""


def pair_bias(pair_RRC: Tensor, normalise: nn.LayerNorm, project: Projection) -> Tensor:
    """A projection of the LayerNormed pairs to one number per head: (H, R, R)."""

    def bias(_rows: slice, pair_TRC: Tensor) -> Tensor:
        projected_TRH: Tensor = project(normalise(pair_TRC))
        return projected_TRH.transpose(1, 2)

    def new_output() -> Tensor:
        shape = (project.out_features, *pair_RRC.shape[:2])
        return pair_RRC.new_empty(shape, dtype=project.weight.dtype).transpose(0, 1)

    return map_tiled(
        bias,
        TILE_ELEMENTS,
        new_output,
        sliced=(pair_RRC,),
        parameters=[*normalise.parameters(), *project.parameters()],
    ).transpose(0, 1)
