"""Invariant point attention (supplement, Algorithm 22).

Shape suffixes: R residues, C channels, H heads, D channels of a head, P points of a head; a point's last axis is
x, y, z. Coordinates are in the structure module's unit, 10 Å."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.site import AttentionSite
from bioattn.models.evoformer.config import StructureModuleConfig
from bioattn.models.evoformer.projection import final_linear, linear
from bioattn.models.evoformer.rigid import Rigid

MASK_LOGIT = 1e5
"""Subtracted from the logit of a masked pair; AlphaFold's number. Logits keep steps of 1/128 beside it, so a
residue that is itself masked attends to all residues almost as without a mask."""


class InvariantPointScore:
    """Logit = qᵀk/√(3d) + bias/√3 − ½ γ Σ_p ‖q_p − k_p‖² for queries and keys in space."""

    def __init__(
        self,
        query_points_HRP3: Tensor,
        key_points_HRP3: Tensor,
        point_weight_H: Tensor,
        pair_bias_HRR: Tensor,
    ) -> None:
        """Points in global coordinates; point_weight_H: γ; pair_bias_HRR: from the pair representation."""
        self.query_points_HRP3 = query_points_HRP3
        self.key_points_HRP3 = key_points_HRP3
        self.point_weight_H = point_weight_H
        self.pair_bias_HRR = pair_bias_HRR

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """(H, R, D) queries and keys → (H, R, R)."""
        logits_HRR = (query @ key.transpose(-1, -2)) * math.sqrt(1 / (3 * query.shape[-1]))
        logits_HRR = logits_HRR + math.sqrt(1 / 3) * self.pair_bias_HRR
        return logits_HRR - 0.5 * self._weighted_squares()

    def _weighted_squares(self) -> Tensor:
        """γ Σ_p ‖q_p − k_p‖², (H, R, R), point by point: all differences at once would be 3P times as large.

        Not as ‖q‖² + ‖k‖² − 2qᵀk, which cancels far from the origin. The order of the sums is OpenFold's: where a
        mask leaves of a logit steps of 1/128, another order can change the step.
        """
        weight_H11 = self.point_weight_H[:, None, None]
        total_HRR = self.pair_bias_HRR.new_zeros(self.pair_bias_HRR.shape)
        for query_HR3, key_HR3 in zip(
            self.query_points_HRP3.unbind(-2), self.key_points_HRP3.unbind(-2), strict=True
        ):
            squares_HRR = torch.zeros_like(total_HRR)
            for query_HR, key_HR in zip(query_HR3.unbind(-1), key_HR3.unbind(-1), strict=True):
                squares_HRR += (query_HR[:, :, None] - key_HR[:, None, :]).square()
            total_HRR += squares_HRR * weight_H11
        return total_HRR

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
        update_RC: Tensor = self.project_output(torch.cat([part.flatten(1) for part in parts], dim=-1))
        return update_RC

    def _place(self, local_RE: Tensor, frames: Rigid) -> Tensor:
        """Points as their projection emits them → global (H, R, P, 3)."""
        local_RP3 = local_RE.unflatten(-1, (3, -1)).transpose(-1, -2)
        global_RHP3: Tensor = frames.unsqueeze(1).apply(local_RP3).unflatten(1, (self.num_heads, -1))
        return global_RHP3.transpose(0, 1)
