"""The network of a molecule model: what atoms write, summed, and read by one linear and one hidden layer.

Shape suffixes: B molecules, A atoms, R radii, S slots, T tasks, W places (radius × atom) of a molecule.
"""

import torch
from torch import Tensor, nn

from bioattn.attention.site import AttentionSite
from bioattn.models.molecule.config import MoleculeModelConfig
from bioattn.models.molecule_layers import GraphBatch, make_encoder

BLOCK = 256
"""Places whose writing is left out at a time."""


class MoleculeModel(nn.Module):
    """Molecules → one number per task: standardised values, or logits of classes."""

    def __init__(self, config: MoleculeModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = make_encoder(config)
        slots, tasks = config.slots, len(config.tasks)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(slots, tasks)
        self.hidden = (
            nn.Sequential(
                nn.Linear(slots, config.hidden),
                nn.ReLU(),
                nn.Dropout(config.dropout),
                nn.Linear(config.hidden, tasks, bias=False),
            )
            if config.hidden
            else None
        )

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name, in the order of the model."""
        sites: list[AttentionSite] = self.encoder.sites
        return {site.name: site for site in sites}

    def read(self, written_BS: Tensor) -> Tensor:
        """What atoms wrote together → (B, T)."""
        written_BS = self.dropout(written_BS * self.config.scale)
        answer_BT: Tensor = self.linear(written_BS)
        return answer_BT if self.hidden is None else answer_BT + self.hidden(written_BS)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(B, T)."""
        return self.read(self.encoder(batch).sum((1, 2)))

    def contributions(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Predictions (B, T), and what each would lose had an atom written nothing at a radius (B, T, R, A).

        Without a hidden layer these add up to the prediction, but for the bias.
        """
        writes_BRAS = self.encoder(batch)
        written_BS = writes_BRAS.sum((1, 2))
        answer_BT = self.read(written_BS)
        places_BWS = writes_BRAS.flatten(1, 2)
        lost = [
            answer_BT[:, None] - self.read(written_BS[:, None] - places_BWS[:, first : first + BLOCK])
            for first in range(0, places_BWS.shape[1], BLOCK)
        ]
        return answer_BT, torch.cat(lost, 1).transpose(1, 2).unflatten(2, writes_BRAS.shape[1:3])
