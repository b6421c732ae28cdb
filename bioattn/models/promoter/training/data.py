"""What a training run takes of a promoter dataset: targets, batches, and losses over measured cells.

Every random choice of a batch is a function of (seed, epoch, step): nothing needs to be remembered to go on after
an interruption, and a resumed run sees exactly the batches of an undisturbed one.

Shape suffixes: B promoters, G genes, L bases, T treatments.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import SPLIT_NAMES, TRAIN, Noise
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import reverse_complement
from bioattn.models.noise import noised
from bioattn.models.promoter.config import Loss, TrainingConfig
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.kmers import distinct_kmers, distinct_values

SPLIT_K = 14
"""Length of the k-mers that a certificate of a split counts: by chance few are in two promoters."""


def split_certificate(dataset: PromoterDataset) -> dict[str, Any]:
    """What shows that genes were held out, with the numbers to recompute it from the dataset.

    Of each side the genes, the SHA-256 of their sorted ids, one a line, and the share of its distinct k-mers (of
    either strand) that training genes have, too; and what the dataset says of its split.
    """
    windows = dataset.codes[:, dataset.flank : dataset.flank + dataset.length]
    kmers = [
        distinct_values(distinct_kmers(windows[dataset.gene_split == side], SPLIT_K)[0]) for side in range(3)
    ]
    sides = {}
    for side, name in enumerate(SPLIT_NAMES):
        ids = sorted(dataset.gene_ids[gene] for gene in dataset.genes_in(side))
        sides[name] = {
            "genes": len(ids),
            "ids_sha256": hashlib.sha256("\n".join(ids).encode()).hexdigest(),
            "kmers": len(kmers[side]),
            "kmers_in_train": int(np.isin(kmers[side], kmers[TRAIN], assume_unique=True).sum()),
        }
    said = {name: dataset.metadata[name] for name in ("split", "leakage") if name in dataset.metadata}
    return {"k": SPLIT_K, "sides": sides, "dataset": said}


@dataclass(frozen=True, slots=True)
class TargetScale:
    """Means and standard deviations of the training cells, in the dataset's units: a model predicts 0 ± 1."""

    mean_T: NDArray[np.float64]
    sd_T: NDArray[np.float64]

    @classmethod
    def of(cls, targets_GT: NDArray[np.float32], *, binary: bool, each: bool) -> "TargetScale":
        """Those of the training cells; NaN = missing.

        each: of each treatment by itself, where one readout of all treatments cannot tell their levels apart;
        else of all cells together. Treatments with fewer than two different responses get those of all.
        """
        number = targets_GT.shape[1]
        if binary:
            return cls(np.zeros(number), np.ones(number))
        sd = float(np.nanstd(targets_GT, dtype=np.float64))
        mean_T = np.full(number, np.nanmean(targets_GT, dtype=np.float64))
        sd_T = np.full(number, sd if sd > 0 else 1.0)
        if each:
            for column in np.flatnonzero([len(np.unique(c[np.isfinite(c)])) > 1 for c in targets_GT.T]):
                mean_T[column] = np.nanmean(targets_GT[:, column], dtype=np.float64)
                sd_T[column] = np.nanstd(targets_GT[:, column], dtype=np.float64)
        return cls(mean_T, sd_T)

    def standard(self, targets_BT: Tensor, treatments_T: Tensor | None = None) -> Tensor:
        """Targets of some treatments (positions among all) as the model predicts them: float32."""
        chosen = slice(None) if treatments_T is None else treatments_T.numpy()
        mean_T, sd_T = (torch.from_numpy(values[chosen]).float() for values in (self.mean_T, self.sd_T))
        return (targets_BT - mean_T) / sd_T


def log_odds(targets_GT: NDArray[np.float32]) -> NDArray[np.float64]:
    """Log-odds (T,) of the measured training cells that are 1, half a cell of either kind added; NaN = missing."""
    ones_T = np.nansum(targets_GT, axis=0, dtype=np.float64)
    odds_T: NDArray[np.float64] = (ones_T + 0.5) / (np.isfinite(targets_GT).sum(axis=0) - ones_T + 0.5)
    return np.log(odds_T)


class Batch(NamedTuple):
    """Promoters of one step and the treatments whose responses are predicted."""

    codes_BL: Tensor
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
        treatments_per_step: int | None = None,
    ) -> None:
        """treatments_per_step: where the settings say nothing; None = all.

        Raises: BioattnError when windows are to be shifted further than the dataset's flank.
        """
        self.config = config
        self.genes = genes
        self.flank = dataset.flank
        self.max_shift = self.flank if config.max_shift is None else config.max_shift
        if self.max_shift > self.flank:
            raise BioattnError(
                f"max_shift is {self.max_shift}, the dataset stores a flank of {self.flank}; "
                "prepare the promoters with a larger --flank, or set a smaller max_shift"
            )
        # (genes, shifts, length) without copying: window s starts s bases into the stored, flanked sequence.
        self.windows = sliding_window_view(dataset.codes, dataset.length, axis=1)
        self.targets_GT = dataset.targets[:, treatments]
        self.num_treatments = len(treatments)
        per_step = config.treatments_per_step or treatments_per_step or self.num_treatments
        self.treatments_per_step = min(per_step, self.num_treatments)
        self.steps_per_epoch = max(1, len(genes) // config.batch_size)
        """The genes left over join the last batch rather than make a tiny one."""
        self._epoch = -1
        self._order = genes
        """The genes as epoch `_epoch` takes them: drawn once for all its steps."""

    def batch(self, epoch: int, step: int) -> Batch:
        """The batch of a step of an epoch, both from 0."""
        config = self.config
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([config.seed, epoch]).permutation(self.genes)
        last = step == self.steps_per_epoch - 1
        start = step * config.batch_size
        genes_B = self._order[start : None if last else start + config.batch_size]
        random = np.random.default_rng([config.seed, epoch, step])
        seed = int(random.integers(2**62))
        shifts_B = random.integers(-self.max_shift, self.max_shift + 1, size=len(genes_B))
        codes_BL = self.windows[genes_B, self.flank + shifts_B]
        if config.reverse_complement:
            turned_B = random.random(len(genes_B)) < 0.5
            codes_BL[turned_B] = reverse_complement(codes_BL[turned_B])
        codes, bases_BL4 = torch.from_numpy(np.ascontiguousarray(codes_BL)), None
        if config.noise is not None:
            bases = noised(codes_BL, config.noise, random).bases[:, 0]
            if config.noise is Noise.MASKED:
                codes = bases
            else:
                bases_BL4 = bases.softmax(-1)
        treatments_T = np.arange(self.num_treatments)
        if self.treatments_per_step < self.num_treatments:
            treatments_T = np.sort(
                random.choice(self.num_treatments, self.treatments_per_step, replace=False)
            )
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


def cell_losses(answers_BT: Tensor, targets_BT: Tensor, loss: Loss, huber_delta: float) -> Tensor:
    """The loss of each cell (B, T); 0 where the target is NaN."""
    measured_BT = torch.isfinite(targets_BT)
    targets_BT = torch.where(measured_BT, targets_BT, 0.0)
    match loss:
        case Loss.MSE:
            losses_BT = (answers_BT - targets_BT).square()
        case Loss.HUBER:
            losses_BT = F.huber_loss(answers_BT, targets_BT, reduction="none", delta=huber_delta)
        case Loss.BINARY:
            losses_BT = F.binary_cross_entropy_with_logits(answers_BT, targets_BT, reduction="none")
    return losses_BT * measured_BT


def measured_cells(targets_BT: Tensor) -> Tensor:
    """How many cells have a target, a scalar; 1 when none has, so that it can be divided by."""
    return torch.isfinite(targets_BT).sum().clamp(min=1)


def classifier_free_loss(
    answers_BT: Tensor,
    unconditional_B1: Tensor | None,
    targets_BT: Tensor,
    measured: Tensor,
    *,
    loss: Loss,
    huber_delta: float,
    probability: float,
) -> Tensor:
    """The expected loss when each cell's treatment is dropped with `probability` (Ho & Salimans 2022).

    measured: the `measured_cells` of the whole batch; of a part of it this is what the part adds to the loss.

    Dropping at random would ask the unconditional token about a random part of the cells; asking it about all
    of them, weighted by the probability, has the same expectation and less noise.
    """
    conditional = cell_losses(answers_BT, targets_BT, loss, huber_delta).sum() / measured
    if unconditional_B1 is None:
        return conditional
    dropped_BT = cell_losses(unconditional_B1.expand_as(targets_BT), targets_BT, loss, huber_delta)
    return (1 - probability) * conditional + probability * (dropped_BT.sum() / measured)
