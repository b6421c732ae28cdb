"""From a promoter's context to one number per treatment.

Shape suffixes: B promoters, T treatments, C context channels, E treatment channels, H hidden channels.
"""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class TreatmentReadout(nn.Module):
    """A hidden layer shared by all treatments, read by a vector that belongs to the treatment.

    The product lets one feature raise the response to one treatment and lower that to another; a sum of the
    two alone could not.
    """

    def __init__(
        self, context_channels: int, treatment_channels: int, hidden_channels: int, dropout: float
    ) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(context_channels)
        self.dropout = nn.Dropout(dropout)
        self.from_context = nn.Linear(context_channels, hidden_channels)
        self.from_treatment = nn.Linear(treatment_channels, hidden_channels, bias=False)
        self.reader = nn.Linear(treatment_channels, hidden_channels)
        self.offset = nn.Linear(treatment_channels, 1)
        self.scale = hidden_channels**-0.5

    def forward(self, context_BTC: Tensor, treatments_TE: Tensor) -> Tensor:
        """Context (B, T, C), or (B, 1, C) where it is the same for all, and embeddings (T, E) → (B, T)."""
        context_BTH = self.from_context(self.dropout(self.normalise(context_BTC)))
        hidden_BTH = self.dropout(F.gelu(context_BTH + self.from_treatment(treatments_TE)))
        answer_BT: Tensor = (hidden_BTH * self.reader(treatments_TE)).sum(-1) * self.scale
        offset_T: Tensor = self.offset(treatments_TE).squeeze(-1)
        return answer_BT + offset_T
