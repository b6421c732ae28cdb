"""From a promoter's context to one number per treatment.

Shape suffixes: B promoters, T treatments, C context channels, E treatment channels, H hidden channels.
"""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.promoter.batch_part import uniform_like


class TreatmentReadout(nn.Module):
    """Dot product of the context with a vector of the treatment, directly and through a shared hidden layer.

    The product lets one feature raise the response to one treatment and lower the response to another; a sum of
    context and treatment could not. The linear path uses the context as it is, so weak evidence gives a small
    prediction.
    """

    def __init__(
        self, context_channels: int, treatment_channels: int, hidden_channels: int, dropout: float
    ) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(context_channels)
        self.dropout = dropout
        self.from_context = nn.Linear(context_channels, hidden_channels)
        self.from_treatment = nn.Linear(treatment_channels, hidden_channels, bias=False)
        self.hidden_reader = nn.Linear(treatment_channels, hidden_channels)
        self.linear_reader = nn.Linear(treatment_channels, context_channels)
        self.offset = nn.Linear(treatment_channels, 1)
        self.hidden_scale = hidden_channels**-0.5
        self.linear_scale = context_channels**-0.5

    def forward(self, context_BTC: Tensor, treatments_TE: Tensor) -> Tensor:
        """Context (B, T, C), or (B, 1, C) where it is the same for all, and embeddings (T, E) → (B, T)."""
        linear_BT = (context_BTC * self.linear_reader(treatments_TE)).sum(-1) * self.linear_scale
        context_BTH = self.from_context(self._drop(self.normalise(context_BTC)))
        hidden_BTH = self._drop(F.gelu(context_BTH + self.from_treatment(treatments_TE)))
        hidden_BT = (hidden_BTH * self.hidden_reader(treatments_TE)).sum(-1) * self.hidden_scale
        offset_T: Tensor = self.offset(treatments_TE).squeeze(-1)
        answer_BT: Tensor = linear_BT + hidden_BT + offset_T
        return answer_BT

    def _drop(self, features_BTC: Tensor) -> Tensor:
        """Dropout by promoter and channel: the same for all treatments, so fifty cost little more than one."""
        if not self.training or not self.dropout:
            return features_BTC
        kept_B1C = uniform_like(features_BTC[:, :1]) >= self.dropout
        return features_BTC * (kept_B1C / (1 - self.dropout))
