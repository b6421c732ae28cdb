"""The structure module, from single and pairs to atoms (AlphaFold 2 supplement, 1.8, Algorithms 20 and 23).

Shape suffixes: R residues, C channels, A angles; an angle's last axis is sine, cosine. Frames are kept in units of
10 Å inside and given in Å.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.models.evoformer.config import StructureModuleConfig
from bioattn.models.evoformer.invariant_point_attention import InvariantPointAttention
from bioattn.models.evoformer.projection import final_linear, linear, relu_linear
from bioattn.models.evoformer.rigid import AtomBuilder, BackboneFrames
from bioattn.models.evoformer.sites import alignment_site

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


class BackboneUpdate(nn.Module):
    """Moves each residue's frame by a small rotation and translation read from its single representation."""

    def __init__(self, single_channels: int) -> None:
        super().__init__()
        self.project_motion = final_linear(single_channels, 6)

    def forward(self, single_RC: Tensor, frames: BackboneFrames) -> BackboneFrames:
        """Frames (R,) moved, each in its own coordinates."""
        return frames.updated(self.project_motion(single_RC))


ANGSTROM_PER_UNIT = 10.0
"""The module's unit of length."""


class StructureOutputs(NamedTuple):
    """What every layer (L) predicts, Å; the last layer is the answer."""

    single: Tensor
    """(R, C) single representation after the last layer."""
    states: Tensor
    """(L, R, C) the same after each layer."""
    frames: Tensor
    """(L, R, 7) backbone frames: unit quaternion (w, x, y, z), translation (of CA)."""
    unnormalized_angles: Tensor
    """(L, R, 7, 2)"""
    angles: Tensor
    """(L, R, 7, 2) sine and cosine of omega, phi, psi, chi1 to chi4."""
    sidechain_frames: Tensor
    """(L, R, 8, 4, 4) global frames of the rigid groups."""
    positions: Tensor
    """(L, R, 14, 3) atoms in the order of `structures.ideal_geometry`."""
    atom37: Tensor
    """(R, 37, 3) atoms of the last layer by name (`ATOM37`)."""
    atom37_mask: Tensor
    """(R, 37) 1 where the amino acid has this atom."""


class Transition(nn.Module):
    """Three layers beside a skip connection, then layer norm (lines 8 and 9)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = relu_linear(channels, channels)
        self.second = relu_linear(channels, channels)
        self.third = final_linear(channels, channels)
        self.normalise = nn.LayerNorm(channels)

    def forward(self, single_RC: Tensor) -> Tensor:
        """(R, C) → (R, C)."""
        update_RC = self.third(F.relu(self.second(F.relu(self.first(single_RC)))))
        normed_RC: Tensor = self.normalise(single_RC + update_RC)
        return normed_RC


class StructureModule(nn.Module):
    """Frames start at the origin and move layer by layer; the layers share their weights. No dropout."""

    def __init__(self, config: StructureModuleConfig, single_channels: int, pair_channels: int) -> None:
        super().__init__()
        self.normalise_single = nn.LayerNorm(single_channels)
        self.normalise_pair = nn.LayerNorm(pair_channels)
        self.project_single = linear(single_channels, single_channels)
        self.invariant_point_attention = InvariantPointAttention(config, single_channels, pair_channels)
        self.normalise_attended = nn.LayerNorm(single_channels)
        self.transition = Transition(single_channels)
        self.backbone_update = BackboneUpdate(single_channels)
        self.angle_network = AngleNetwork(config, single_channels)
        self.atom_builder = AtomBuilder()
        self.sites = [
            alignment_site("structure", layer, "invariant_point", config.num_heads)
            for layer in range(config.num_layers)
        ]

    def forward(
        self, single_RC: Tensor, pair_RRC: Tensor, aatype_R: Tensor, seq_mask_R: Tensor
    ) -> StructureOutputs:
        """Single and pair representation of the trunk → atoms. Computed in float32 whatever comes in."""
        with torch.autocast(single_RC.device.type, enabled=False):
            return self._forward(single_RC.float(), pair_RRC.float(), aatype_R, seq_mask_R.float())

    def _forward(
        self, single_RC: Tensor, pair_RRC: Tensor, aatype_R: Tensor, seq_mask_R: Tensor
    ) -> StructureOutputs:
        initial_RC = self.normalise_single(single_RC)
        pair_RRC = self.normalise_pair(pair_RRC)
        single_RC = self.project_single(initial_RC)
        frames = BackboneFrames.identity(single_RC)
        layers = []
        for site in self.sites:
            single_RC = single_RC + self.invariant_point_attention(
                single_RC, pair_RRC, frames.rigid(), seq_mask_R, site
            )
            single_RC = self.transition(self.normalise_attended(single_RC))
            frames = self.backbone_update(single_RC, frames)
            raw_angles, angles = self.angle_network(single_RC, initial_RC)
            scaled = frames.scaled(ANGSTROM_PER_UNIT)
            group_frames = self.atom_builder.group_frames(scaled.rigid(), angles, aatype_R)
            positions = self.atom_builder.atom14(group_frames, aatype_R)
            layers.append(
                (single_RC, scaled.tensor(), raw_angles, angles, group_frames.to_matrix(), positions)
            )
            # As in the algorithm: gradients through chains of rotations are unstable.
            frames = frames.without_rotation_gradient()
        states, all_frames, all_raw, all_angles, group_matrices, all_positions = (
            torch.stack(values) for values in zip(*layers, strict=True)
        )
        return StructureOutputs(
            single=single_RC,
            states=states,
            frames=all_frames,
            unnormalized_angles=all_raw,
            angles=all_angles,
            sidechain_frames=group_matrices,
            positions=all_positions,
            atom37=self.atom_builder.atom37(positions, aatype_R),
            atom37_mask=self.atom_builder.atom37_mask[aatype_R],
        )
