"""Rigid frames: a rotation and a translation per residue (or atom group), and the quaternions behind them.

Leading axes are `...`; a frame maps local coordinates to global ones: x ↦ rotation x + translation.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Rigid(NamedTuple):
    """Frames as matrices."""

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
        """The frames as rotation matrices and translations."""
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

    def without_rotation_gradient(self) -> "BackboneFrames":
        """The same frames; no gradient flows back through their rotations."""
        return BackboneFrames(self.quaternion.detach(), self.translation)

    def scaled(self, factor: float) -> "BackboneFrames":
        """Translations in another unit of length."""
        return BackboneFrames(self.quaternion, self.translation * factor)

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
