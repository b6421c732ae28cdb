"""Inputs of an MSA/pair model for one alignment, as tensors.

Shapes: S MSA rows (cluster centres), E extra MSA rows, R residues (match columns), F pair features. No batch axis.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bioattn.alignments.input_features import InputFeatures


class ModelInputs(NamedTuple):
    """One sample of an alignment's input features; recycling may take another sample for every pass."""

    aatype: Tensor
    """(R,) int64, the query in model order 0..20; 20 = unknown (no atoms)."""
    residue_index: Tensor
    """(R,) int64; only differences count."""
    seq_mask: Tensor
    """(R,) float, 1 = residue, 0 = padding."""
    target_feat: Tensor
    """(R, 22) float."""
    msa_feat: Tensor
    """(S, R, 49) float, or however many channels the model's config names."""
    msa_mask: Tensor
    """(S, R) float."""
    extra_msa: Tensor | None = None
    """(E, R) int64 in 0..22; None for a model without extra-MSA stack. Never 0 rows: give one masked row."""
    extra_has_deletion: Tensor | None = None
    """(E, R) float, 0 or 1."""
    extra_deletion_value: Tensor | None = None
    """(E, R) float in 0..1."""
    extra_msa_mask: Tensor | None = None
    """(E, R) float."""
    pair_feat: Tensor | None = None
    """(R, R, F) float for a model with pair input features (covariances, say), otherwise None."""

    @property
    def num_residues(self) -> int:
        """Number of residues, R."""
        return self.aatype.shape[0]

    def to(self, device: torch.device) -> "ModelInputs":
        """The inputs on another device."""
        return ModelInputs._make(None if tensor is None else tensor.to(device) for tensor in self)

    @classmethod
    def from_features(cls, features: InputFeatures) -> "ModelInputs":
        """The NumPy features of `bioattn.alignments.input_features` as tensors on the CPU."""
        return cls(
            aatype=torch.from_numpy(features.aatype).long(),
            residue_index=torch.from_numpy(features.residue_index).long(),
            seq_mask=torch.from_numpy(features.seq_mask),
            target_feat=torch.from_numpy(features.target_feat),
            msa_feat=torch.from_numpy(features.msa_feat),
            msa_mask=torch.from_numpy(features.msa_mask),
            extra_msa=torch.from_numpy(features.extra_msa).long(),
            extra_has_deletion=torch.from_numpy(features.extra_has_deletion),
            extra_deletion_value=torch.from_numpy(features.extra_deletion_value),
            extra_msa_mask=torch.from_numpy(features.extra_msa_mask),
        )
