"""Rigid frames of residues, and atoms from frames and torsion angles (AlphaFold 2 supplement, Algorithm 24).

Leading axes are `...`; a frame maps local coordinates to global ones: x ↦ rotation x + translation.
Shape suffixes: R residues, G rigid groups, A angles.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, make_residue_tables


class Rigid(NamedTuple):
    rotation: Tensor
    """(..., 3, 3)"""
    translation: Tensor
    """(..., 3)"""

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
    """Frames of residues, rotations as unit quaternions (w, x, y, z)."""

    quaternion: Tensor
    """(R, 4)"""
    translation: Tensor
    """(R, 3)"""

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
