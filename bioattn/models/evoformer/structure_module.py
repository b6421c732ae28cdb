"""The structure module, from single and pairs to frames, torsion angles and atoms.

AlphaFold 2 supplement, 1.8, Algorithms 20 and 22 to 24. Leading axes of frames are `...`; a frame maps local
coordinates to global ones: x ↦ rotation x + translation. Shape suffixes: R residues, C channels, H heads, D
channels of a head, P points of a head, G rigid groups, A angles. The last axis of a point is x, y, z, that of an
angle sine, cosine. Coordinates and frames are in units of 10 Å inside and given in Å.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.site import AttentionSite
from bioattn.models.evoformer.config import StructureModuleConfig
from bioattn.models.evoformer.layers import final_linear, linear, relu_linear
from bioattn.models.evoformer.sites import alignment_site
from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, NUM_ANGLES, make_residue_tables


class Rigid(NamedTuple):
    """Frames: rotations (..., 3, 3) and translations (..., 3)."""

    rotation: Tensor
    translation: Tensor

    def apply(self, points: Tensor) -> Tensor:
        """Local points (..., 3) in global coordinates; the leading axes broadcast."""
        return _rotate(self.rotation, points) + self.translation

    def inverse_apply(self, points: Tensor) -> Tensor:
        """Global points (..., 3) in local coordinates."""
        return _rotate(self.rotation.transpose(-1, -2), points - self.translation)

    def compose(self, inner: "Rigid") -> "Rigid":
        """The composition: `inner` is applied first, then this frame."""
        return Rigid(self.rotation @ inner.rotation, self.apply(inner.translation))

    def unsqueeze(self, dim: int) -> "Rigid":
        """One more leading axis at `dim` ≥ 0."""
        return Rigid(self.rotation.unsqueeze(dim), self.translation.unsqueeze(dim))

    def to_matrix(self) -> Tensor:
        """(..., 4, 4) homogeneous matrices."""
        top = torch.cat([self.rotation, self.translation.unsqueeze(-1)], dim=-1)
        bottom = top.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(*top.shape[:-2], 1, 4)
        return torch.cat([top, bottom], dim=-2)

    @classmethod
    def from_matrix(cls, matrix: Tensor) -> "Rigid":
        """From (..., 4, 4) homogeneous matrices."""
        return cls(matrix[..., :3, :3], matrix[..., :3, 3])


class BackboneFrames(NamedTuple):
    """Frames of residues: unit quaternions (w, x, y, z), (R, 4), and translations (R, 3)."""

    quaternion: Tensor
    translation: Tensor

    @classmethod
    def identity(cls, like: Tensor) -> "BackboneFrames":
        """All R residues at the origin, unturned (the "black hole"); like: any (R, …) tensor."""
        quaternion = like.new_zeros(like.shape[0], 4)
        quaternion[:, 0] = 1
        return cls(quaternion, like.new_zeros(like.shape[0], 3))

    def rigid(self) -> Rigid:
        return Rigid(rotation_from_quaternion(self.quaternion), self.translation)

    def updated(self, update: Tensor) -> "BackboneFrames":
        """Each frame composed with the small motion (b, c, d, x, y, z): quaternion (1, b, c, d), then normalised.

        update: (R, 6).
        """
        vector, shift = update[..., :3], update[..., 3:]
        w, xyz = self.quaternion[..., :1], self.quaternion[..., 1:]
        # The product q · (1, v) of quaternions, written as q + q · (0, v).
        turned = torch.cat(
            [-(xyz * vector).sum(-1, keepdim=True), w * vector + torch.linalg.cross(xyz, vector)], dim=-1
        )
        quaternion = self.quaternion + turned
        quaternion = quaternion / torch.linalg.vector_norm(quaternion, dim=-1, keepdim=True)
        return BackboneFrames(quaternion, self.rigid().apply(shift))

    def tensor(self) -> Tensor:
        """(R, 7): quaternion, then translation."""
        return torch.cat([self.quaternion, self.translation], dim=-1)


def rotation_from_quaternion(quaternion: Tensor) -> Tensor:
    """(..., 4) unit quaternions (w, x, y, z) → (..., 3, 3)."""
    w, x, y, z = quaternion.unbind(-1)
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def _rotate(rotation: Tensor, points: Tensor) -> Tensor:
    # Sums of products and no matrix product: no reduced-precision kernel may touch coordinates.
    return (rotation * points.unsqueeze(-2)).sum(-1)


_GLYCINE = AMINO_ACIDS.index("GLY")
_CA, _CB = ATOM37.index("CA"), ATOM37.index("CB")


class AtomBuilder(nn.Module):
    """Puts ideal rigid groups onto predicted frames. No parameters: the geometry is not stored with a model."""

    default_frames: Tensor
    atom14_group: Tensor
    atom14_position: Tensor
    atom14_mask: Tensor
    atom37_mask: Tensor
    atom37_to_atom14: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, table in make_residue_tables()._asdict().items():
            self.register_buffer(name, torch.from_numpy(table), persistent=False)

    def group_frames(self, backbone: Rigid, angles_RA2: Tensor, aatype_R: Tensor) -> Rigid:
        """Global frames (R, 8) of the rigid groups; backbone: (R,), in Å."""
        default = Rigid.from_matrix(self.default_frames[aatype_R])
        # The backbone group does not turn: sine 0, cosine 1.
        still = angles_RA2.new_tensor([0.0, 1.0]).expand(len(angles_RA2), 1, 2)
        local = default.compose(_about_x(torch.cat([still, angles_RA2], dim=1)))
        groups = [Rigid(local.rotation[:, group], local.translation[:, group]) for group in range(8)]
        # chi2 to chi4 hang on the group before them, everything else on the backbone.
        for group in range(5, 8):
            groups[group] = groups[group - 1].compose(groups[group])
        in_backbone = Rigid(
            torch.stack([group.rotation for group in groups], dim=1),
            torch.stack([group.translation for group in groups], dim=1),
        )
        return backbone.unsqueeze(1).compose(in_backbone)

    def atom14(self, group_frames: Rigid, aatype_R: Tensor) -> Tensor:
        """Positions (R, 14, 3) in Å; 0 where the amino acid has no such atom."""
        group_R14 = self.atom14_group[aatype_R]
        rows_R1 = torch.arange(len(aatype_R), device=aatype_R.device)[:, None]
        frames = Rigid(
            group_frames.rotation[rows_R1, group_R14], group_frames.translation[rows_R1, group_R14]
        )
        return frames.apply(self.atom14_position[aatype_R]) * self.atom14_mask[aatype_R].unsqueeze(-1)

    def atom37(self, atom14_R14_3: Tensor, aatype_R: Tensor) -> Tensor:
        """The same positions in 37 slots by atom name, (R, 37, 3)."""
        slots_R37 = self.atom37_to_atom14[aatype_R]
        positions = atom14_R14_3.gather(1, slots_R37.unsqueeze(-1).expand(-1, -1, 3))
        return positions * self.atom37_mask[aatype_R].unsqueeze(-1)


def pseudo_beta(atom37_R37_3: Tensor, aatype_R: Tensor) -> Tensor:
    """Positions (R, 3) of CB, for glycine of CA, in ångström."""
    return torch.where((aatype_R == _GLYCINE).unsqueeze(-1), atom37_R37_3[:, _CA], atom37_R37_3[:, _CB])


def _about_x(angle: Tensor) -> Rigid:
    """Rotations (...,) about the x axis; angle: (..., 2) sine, cosine."""
    sine, cosine = angle.unbind(-1)
    zero, one = torch.zeros_like(sine), torch.ones_like(sine)
    rotation = torch.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], dim=-1)
    return Rigid(rotation.unflatten(-1, (3, 3)), torch.stack([zero, zero, zero], dim=-1))


MASK_LOGIT = 1e5
"""Subtracted from the logit of a masked pair; AlphaFold's number. Logits keep steps of 1/128 beside it, so a
residue that is itself masked attends to all residues almost as without a mask."""


class InvariantPointScore(NamedTuple):
    """Logit = qᵀk/√(3d) + bias/√3 − ½ γ Σ_p ‖q_p − k_p‖² for queries and keys in space, γ being the point weight.

    Points are in global coordinates, the bias comes from the pair representation.
    """

    query_points_HRP3: Tensor
    key_points_HRP3: Tensor
    point_weight_H: Tensor
    pair_bias_HRR: Tensor

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """(H, R, D) queries and keys → (H, R, R)."""
        logits_HRR = (query @ key.transpose(-1, -2)) * math.sqrt(1 / (3 * query.shape[-1]))
        logits_HRR = logits_HRR + math.sqrt(1 / 3) * self.pair_bias_HRR
        # Squares point by point: all differences at once would be 3P times as large. Not as ‖q‖² + ‖k‖² − 2qᵀk,
        # which cancels far from the origin. The order of the sums is OpenFold's: where a mask leaves of a logit
        # steps of 1/128, another order can change the step.
        total_HRR = self.pair_bias_HRR.new_zeros(self.pair_bias_HRR.shape)
        for query_HR3, key_HR3 in zip(
            self.query_points_HRP3.unbind(-2), self.key_points_HRP3.unbind(-2), strict=True
        ):
            squares_HRR = torch.zeros_like(total_HRR)
            for query_HR, key_HR in zip(query_HR3.unbind(-1), key_HR3.unbind(-1), strict=True):
                squares_HRR += (query_HR[:, :, None] - key_HR[:, None, :]).square()
            total_HRR += squares_HRR * self.point_weight_H[:, None, None]
        return logits_HRR - 0.5 * total_HRR

    def fused_form(self, query: Tensor, key: Tensor) -> None:
        """None: the weights are needed themselves, for three kinds of values."""
        return


class InvariantPointAttention(nn.Module):
    """Residues attend to residues by content, by the pair representation and by distances between points in the
    residues' frames; moving or turning the whole protein changes nothing.
    """

    def __init__(self, config: StructureModuleConfig, single_channels: int, pair_channels: int) -> None:
        super().__init__()
        heads = config.num_heads
        self.num_heads = heads
        self.head_channels = config.head_channels
        self.num_query_points = config.num_query_points
        self.num_value_points = config.num_value_points
        self.project_query = linear(single_channels, heads * config.head_channels)
        # Per head its keys, then its values.
        self.project_key_value = linear(single_channels, 2 * heads * config.head_channels)
        # All x, then all y, then all z; within each by head and point; per head its key, then its value points.
        self.project_query_points = linear(single_channels, 3 * heads * config.num_query_points)
        self.project_key_value_points = linear(
            single_channels, 3 * heads * (config.num_query_points + config.num_value_points)
        )
        self.project_pair_bias = linear(pair_channels, heads)
        # softplus of this is 1.
        self.point_weight_H = nn.Parameter(torch.full((heads,), math.log(math.e - 1)))
        self.project_output = final_linear(
            heads * (config.head_channels + 4 * config.num_value_points + pair_channels), single_channels
        )

    def forward(
        self,
        single_RC: Tensor,
        pair_RRC: Tensor,
        frames: Rigid,
        seq_mask_R: Tensor,
        site: AttentionSite | None = None,
    ) -> Tensor:
        """The update of the single representation, (R, C); frames: (R,)."""
        heads, channels = self.num_heads, self.head_channels
        query_HRD = self.project_query(single_RC).unflatten(-1, (heads, channels)).transpose(0, 1)
        key_value_HRD = self.project_key_value(single_RC).unflatten(-1, (heads, 2 * channels)).transpose(0, 1)
        key_HRD, value_HRD = key_value_HRD.split(channels, dim=-1)
        query_points_HRP3 = self._place(self.project_query_points(single_RC), frames)
        key_points_HRP3, value_points_HRP3 = self._place(
            self.project_key_value_points(single_RC), frames
        ).split([self.num_query_points, self.num_value_points], dim=-2)
        point_weight_H = F.softplus(self.point_weight_H) * math.sqrt(2 / (27 * self.num_query_points))
        score = InvariantPointScore(
            query_points_HRP3,
            key_points_HRP3,
            point_weight_H,
            self.project_pair_bias(pair_RRC).permute(2, 0, 1),
        )
        mask_RR = seq_mask_R[:, None] * seq_mask_R[None, :]
        weights_HRR = attention_weights(
            query_HRD, key_HRD, score=score, bias=MASK_LOGIT * (mask_RR - 1), site=site, value=value_HRD
        )

        attended_HRD = weights_HRR @ value_HRD
        attended_points_HRP3 = (weights_HRR @ value_points_HRP3.flatten(-2)).unflatten(-1, (-1, 3))
        local_RHP3 = frames.unsqueeze(1).unsqueeze(2).inverse_apply(attended_points_HRP3.transpose(0, 1))
        length_RHP = (local_RHP3.square().sum(-1) + 1e-8).sqrt()
        attended_pair_RHC = weights_HRR.transpose(0, 1) @ pair_RRC
        parts = [attended_HRD.transpose(0, 1), *local_RHP3.unbind(-1), length_RHP, attended_pair_RHC]
        return self.project_output(torch.cat([part.flatten(1) for part in parts], dim=-1))

    def _place(self, local_RE: Tensor, frames: Rigid) -> Tensor:
        """Points as their projection emits them → global (H, R, P, 3)."""
        local_RP3 = local_RE.unflatten(-1, (3, -1)).transpose(-1, -2)
        global_RHP3: Tensor = frames.unsqueeze(1).apply(local_RP3).unflatten(1, (self.num_heads, -1))
        return global_RHP3.transpose(0, 1)


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
    """What every layer (L) predicts, Å; the last layer is the answer.

    single: (R, C) representation after the last layer, states: (L, R, C) after each. frames: (L, R, 7), unit
    quaternion (w, x, y, z) and translation (of CA) of the backbone. angles: (L, R, 7, 2), sine and cosine of
    omega, phi, psi, chi1 to chi4; unnormalized_angles: as predicted. sidechain_frames: (L, R, 8, 4, 4), global,
    of the rigid groups. positions: (L, R, 14, 3), atoms in the order of `structures.ideal_geometry`. atom37:
    (R, 37, 3), those of the last layer by name; atom37_mask: (R, 37), 1 where the amino acid has this atom.
    """

    single: Tensor
    states: Tensor
    frames: Tensor
    unnormalized_angles: Tensor
    angles: Tensor
    sidechain_frames: Tensor
    positions: Tensor
    atom37: Tensor
    atom37_mask: Tensor


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
        """Single and pair representation of the trunk → atoms, in float32 whatever comes in."""
        with torch.autocast(single_RC.device.type, enabled=False):
            initial_RC = self.normalise_single(single_RC.float())
            pair_RRC = self.normalise_pair(pair_RRC.float())
            single_RC = self.project_single(initial_RC)
            frames = BackboneFrames.identity(single_RC)
            layers = []
            for site in self.sites:
                single_RC = single_RC + self.invariant_point_attention(
                    single_RC, pair_RRC, frames.rigid(), seq_mask_R.float(), site
                )
                single_RC = self.transition(self.normalise_attended(single_RC))
                frames = self.backbone_update(single_RC, frames)
                raw_angles, angles = self.angle_network(single_RC, initial_RC)
                scaled = frames._replace(translation=frames.translation * ANGSTROM_PER_UNIT)
                group_frames = self.atom_builder.group_frames(scaled.rigid(), angles, aatype_R)
                positions = self.atom_builder.atom14(group_frames, aatype_R)
                layers.append(
                    (single_RC, scaled.tensor(), raw_angles, angles, group_frames.to_matrix(), positions)
                )
                # As in the algorithm: gradients through chains of rotations are unstable.
                frames = frames._replace(quaternion=frames.quaternion.detach())
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
