"""A molecule model: a Gaussian process on shared substructures, and a network that adds to it: what atoms write,
summed, and read by one linear and one hidden layer.

Shape suffixes: B molecules, A atoms, R radii, S slots, T tasks, W places (radius × atom) of a molecule, N measured
molecules, K bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.choices import Task
from bioattn.models.molecule.family import MoleculeModelConfig
from bioattn.models.molecule_layers import GraphBatch, graph_batch, make_encoder
from bioattn.molecules.graphs import Molecules
from bioattn.molecules.similarity import BITS, RADIUS, place_bits

LEAST_CHANCE = 0.01
"""Of a class; a Gaussian process may fall below 0."""
BLOCK = 256
"""Places whose writing is left out at a time."""


class MoleculeBatch(NamedTuple):
    """Some molecules, as their graphs and as their substructures."""

    graphs: GraphBatch
    bits_BRA: Tensor
    """int64: the bit of each atom at each radius (`bioattn.molecules.similarity`); -1 in padding."""
    lost_BRA: Tensor
    """int64: the bit that a molecule loses without the atom."""


def molecule_batch(
    molecules: Molecules, rows: Sequence[int] | NDArray[np.int64], device: torch.device
) -> MoleculeBatch:
    bits = (torch.from_numpy(each).to(device) for each in place_bits(molecules, rows))
    return MoleculeBatch(graph_batch(molecules, rows).to(device), *bits)


class MeasuredMolecules(nn.Module):
    """A fitted `TanimotoProcess` on the bits of `bioattn.molecules.similarity`."""

    packed_bits: Tensor
    """uint8 (N, K / 8)."""
    weights_NT: Tensor
    mean_T: Tensor

    def __init__(self, config: MoleculeModelConfig) -> None:
        super().__init__()
        tasks = len(config.tasks)
        self.binary = config.task is Task.BINARY
        self.register_buffer("packed_bits", torch.zeros(config.measured, BITS // 8, dtype=torch.uint8))
        self.register_buffer("weights_NT", torch.zeros(config.measured, tasks))
        self.register_buffer("mean_T", torch.zeros(tasks))

    def forward(self, bits_BRA: Tensor) -> Tensor:
        """(B, T), as `MoleculeModel` gives them. bits_BRA: of a batch."""
        shared_BN, either_BN = self._overlap(bits_BRA, self._measured())
        return self._answer(shared_BN / either_BN)

    def contributions(self, bits_BRA: Tensor, lost_BRA: Tensor) -> Tensor:
        """What is lost without one bit, for each of `lost_BRA`, (B, T, R, A)."""
        measured_NK = self._measured()
        shared_BN, either_BN = self._overlap(bits_BRA, measured_NK)
        lost = []
        for lost_RA, shared_N, either_N in zip(lost_BRA, shared_BN, either_BN, strict=True):
            there_RA1 = (lost_RA >= 0)[..., None].float()
            both_RAN = measured_NK.T[lost_RA.clamp(min=0)] * there_RA1
            # A bit that the measured molecule has, too, is no longer shared, and stays one that either has.
            without_RAT = self._answer((shared_N - both_RAN) / (either_N - there_RA1 + both_RAN))
            # Exactly 0 where no bit is lost, whatever the order in which rows are summed.
            lost.append((self._answer(shared_N / either_N) - without_RAT) * there_RA1)
        return torch.stack(lost).permute(0, 3, 1, 2)

    def _overlap(self, bits_BRA: Tensor, measured_NK: Tensor) -> tuple[Tensor, Tensor]:
        """How many bits a molecule and a measured one share, and how many either has, (B, N)."""
        places_BW = bits_BRA.flatten(1) % (BITS + 1)  # padding falls behind the last bit
        asked_BK = torch.zeros(len(places_BW), BITS + 1, device=places_BW.device)
        asked_BK = asked_BK.scatter(1, places_BW, 1.0)[:, :BITS]
        shared_BN = asked_BK @ measured_NK.T
        return shared_BN, asked_BK.sum(1)[:, None] + measured_NK.sum(1) - shared_BN

    def _measured(self) -> Tensor:
        places = torch.arange(7, -1, -1, dtype=torch.uint8, device=self.packed_bits.device)
        return ((self.packed_bits[..., None] >> places) & 1).flatten(1).float()

    def _answer(self, similar: Tensor) -> Tensor:
        value: Tensor = self.mean_T + similar @ self.weights_NT
        return logit(value) if self.binary else value


def logit(chance: Tensor) -> Tensor:
    """Log-odds of what a Gaussian process gives for classes."""
    return chance.clamp(LEAST_CHANCE, 1 - LEAST_CHANCE).logit()


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
        self.process = MeasuredMolecules(config) if config.gaussian_process else None
        if self.process is not None:
            last = [self.linear] if self.hidden is None else [self.linear, self.hidden[-1]]
            for weights in (each for layer in last for each in layer.parameters()):
                nn.init.zeros_(weights)

    def read(self, written_BS: Tensor) -> Tensor:
        """What atoms wrote together → (B, T)."""
        written_BS = self.dropout(written_BS * self.config.scale)
        answer_BT: Tensor = self.linear(written_BS)
        return answer_BT if self.hidden is None else answer_BT + self.hidden(written_BS)

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """(B, T)."""
        answer_BT = self.network(batch.graphs)
        if self.process is not None:
            answer_BT = answer_BT + self.process(batch.bits_BRA)
        return answer_BT

    def network(self, graphs: GraphBatch) -> Tensor:
        """What the network adds to the Gaussian process; all of the answer where there is none, (B, T)."""
        return self.read(self.encoder(graphs).sum((1, 2)))

    def contributions(self, batch: MoleculeBatch) -> Tensor:
        """What each prediction would lose had an atom written nothing at a radius (B, T, R, A).

        With neither process nor hidden layer these and the bias add up to the prediction.
        """
        lost_BTRA = self.network_contributions(batch.graphs)
        if self.process is not None:
            lost_BTRA[:, :, : RADIUS + 1] += self.process.contributions(batch.bits_BRA, batch.lost_BRA)
        return lost_BTRA

    def network_contributions(self, graphs: GraphBatch) -> Tensor:
        writes_BRAS = self.encoder(graphs)
        written_BS = writes_BRAS.sum((1, 2))
        answer_BT = self.read(written_BS)
        places_BWS = writes_BRAS.flatten(1, 2)
        lost = [
            answer_BT[:, None] - self.read(written_BS[:, None] - places_BWS[:, first : first + BLOCK])
            for first in range(0, places_BWS.shape[1], BLOCK)
        ]
        lost_BTRA: Tensor = torch.cat(lost, 1).transpose(1, 2).unflatten(2, writes_BRAS.shape[1:3])
        # Padding writes nothing; what is left of it is the rounding of two products.
        return lost_BTRA * graphs.known_BA[:, None, None]
