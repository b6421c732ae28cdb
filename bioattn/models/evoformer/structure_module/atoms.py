"""From frames and torsion angles to atoms (supplement, Algorithm 24).

Shape suffixes: R residues, G rigid groups, A angles.
"""

import torch
from torch import Tensor, nn

from bioattn.models.evoformer.structure_module.rigid import Rigid
from bioattn.structures.ideal_geometry import AMINO_ACIDS, ATOM37, make_residue_tables

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
