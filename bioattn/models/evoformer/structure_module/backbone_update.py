"""Backbone update (supplement, Algorithm 23).

Shape suffixes: R residues, C channels.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear
from bioattn.models.evoformer.structure_module.rigid import BackboneFrames


class BackboneUpdate(nn.Module):
    """Moves each residue's frame by a small rotation and translation read from its single representation."""

    def __init__(self, single_channels: int) -> None:
        super().__init__()
        self.project_motion = final_linear(single_channels, 6)

    def forward(self, single_RC: Tensor, frames: BackboneFrames) -> BackboneFrames:
        """Frames (R,) moved, each in its own coordinates."""
        return frames.updated(self.project_motion(single_RC))
