"""Torsion angles of backbone and side chain (supplement, Algorithm 20, lines 11 to 14).

Shape suffixes: R residues, C channels, A angles; an angle's last axis is sine, cosine.
"""

import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.initial_weights import final_linear, linear, relu_linear
from bioattn.models.evoformer.structure_module.config import StructureModuleConfig

NUM_ANGLES = 7
"""omega, phi, psi, chi1, chi2, chi3, chi4."""


class AngleBlock(nn.Module):
    """Two layers beside a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = relu_linear(channels, channels)
        self.second = final_linear(channels, channels)

    def forward(self, hidden_RC: Tensor) -> Tensor:
        """(R, C) → (R, C)."""
        update_RC: Tensor = self.second(F.relu(self.first(F.relu(hidden_RC))))
        return hidden_RC + update_RC


class AngleNetwork(nn.Module):
    """A small residual network from the single representation, now and at the start, to seven angles."""

    def __init__(self, config: StructureModuleConfig, single_channels: int) -> None:
        super().__init__()
        self.project_current = linear(single_channels, config.angle_channels)
        self.project_initial = linear(single_channels, config.angle_channels)
        self.blocks = nn.ModuleList(AngleBlock(config.angle_channels) for _ in range(config.num_angle_blocks))
        self.project_output = linear(config.angle_channels, 2 * NUM_ANGLES)

    def forward(self, single_RC: Tensor, initial_RC: Tensor) -> tuple[Tensor, Tensor]:
        """(R, 7, 2) as predicted, and on the unit circle."""
        # The supplement has no ReLU on the inputs; the network whose parameters were published has.
        hidden_RC = self.project_current(F.relu(single_RC)) + self.project_initial(F.relu(initial_RC))
        for block in self.blocks:
            hidden_RC = block(hidden_RC)
        raw_RA2 = self.project_output(F.relu(hidden_RC)).unflatten(-1, (NUM_ANGLES, 2))
        length_RA1 = raw_RA2.square().sum(-1, keepdim=True).clamp_min(1e-12).sqrt()
        return raw_RA2, raw_RA2 / length_RA1
