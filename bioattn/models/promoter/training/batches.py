"""Training batches whose every random choice is a function of (seed, epoch, step).

Nothing needs to be remembered to go on after an interruption, and a resumed run sees exactly the batches of an
undisturbed one.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import Noise
from bioattn.formats.nucleotides import reverse_complement
from bioattn.models.noise import noised
from bioattn.models.promoter.training.config import TrainingConfig
from bioattn.promoters.dataset import PromoterDataset


class Batch(NamedTuple):
    """Promoters of one step and the treatments whose responses are predicted."""

    codes_BL: Tensor
    """uint8 (B, length)."""
    targets_BT: Tensor
    """float32 (B, T) in the dataset's units; NaN = missing."""
    treatments_T: Tensor
    """int64: positions among the training treatments."""
    seed: int
    """torch's random state while responses are predicted."""
    bases_BL4: Tensor | None = None
    """With gaussian noise what is read instead of the codes, float32 (B, length, 4)."""


class TrainingBatches:
    """The batches of a run over the training genes and training treatments of a dataset."""

    def __init__(
        self,
        dataset: PromoterDataset,
        genes: NDArray[np.int64],
        treatments: NDArray[np.int64],
        config: TrainingConfig,
        *,
        max_shift: int,
        treatments_per_step: int | None,
    ) -> None:
        self.config = config
        self.genes = genes
        self.max_shift = max_shift
        self.length = dataset.length
        self.flank = dataset.flank
        # (genes, shifts, length) without copying: window s starts s bases into the stored, flanked sequence.
        self.windows = sliding_window_view(dataset.codes, dataset.length, axis=1)
        self.targets_GT = dataset.targets[:, treatments]
        self.num_treatments = len(treatments)
        self.treatments_per_step = min(treatments_per_step or self.num_treatments, self.num_treatments)
        self._epoch = -1
        self._order = genes

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one pass; the genes left over join the last batch rather than make a tiny one."""
        return max(1, len(self.genes) // self.config.batch_size)

    def batch(self, epoch: int, step: int) -> Batch:
        """The batch of a step of an epoch, both from 0."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.config.seed, epoch]).permutation(self.genes)
        last = step == self.steps_per_epoch - 1
        start = step * self.config.batch_size
        genes_B = self._order[start : None if last else start + self.config.batch_size]
        random = np.random.default_rng([self.config.seed, epoch, step])
        seed = int(random.integers(2**62))
        return self._draw(genes_B, random, seed)

    def _draw(self, genes_B: NDArray[np.int64], random: np.random.Generator, seed: int) -> Batch:
        shifts_B = random.integers(-self.max_shift, self.max_shift + 1, size=len(genes_B))
        codes_BL = self.windows[genes_B, self.flank + shifts_B]
        if self.config.reverse_complement:
            turned_B = random.random(len(genes_B)) < 0.5
            codes_BL[turned_B] = reverse_complement(codes_BL[turned_B])
        codes, bases_BL4 = torch.from_numpy(np.ascontiguousarray(codes_BL)), None
        if self.config.noise is not None:
            bases = noised(codes_BL, self.config.noise, random).bases[:, 0]
            if self.config.noise is Noise.MASKED:
                codes = bases
            else:
                bases_BL4 = bases.softmax(-1)
        if self.treatments_per_step < self.num_treatments:
            treatments_T = np.sort(
                random.choice(self.num_treatments, self.treatments_per_step, replace=False)
            )
        else:
            treatments_T = np.arange(self.num_treatments)
        return Batch(
            codes,
            torch.from_numpy(self.targets_GT[genes_B][:, treatments_T]),
            torch.from_numpy(treatments_T),
            seed,
            bases_BL4,
        )


def centred_windows(dataset: PromoterDataset, genes: NDArray[np.int64]) -> Tensor:
    """The unshifted windows of `genes`: uint8 (B, length)."""
    return torch.from_numpy(dataset.codes[genes, dataset.flank : dataset.flank + dataset.length])
