"""How much each attention head of a promoter model matters, and how many could go.

Importance is the mean over measured cells of |∂ loss / ∂ mask|, where the mask multiplies what the head gives
(Michel, Levy & Neubig 2019, "Are sixteen heads really better than one?"): to first order, how much the loss of a
cell changes when the head is silenced, whichever way. Beside it stands what silencing the head really does.
`greedy_pruning` silences one head after the other, the least important of those left, and notes what is lost.

Losses are those of training: squared error in units of the training responses' standard deviation, cross-entropy
for a binary task.

Shape suffixes: B promoters of a batch, G genes, T treatments, L bases, H heads.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.head_masks import attention_layers, masked_heads
from bioattn.errors import BioattnError
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.training.batches import centred_windows
from bioattn.models.promoter.training.config import Loss
from bioattn.models.promoter.training.losses import cell_losses
from bioattn.promoters.dataset import SPLIT_NAMES, PromoterDataset
from bioattn.promoters.response_metrics import per_treatment
from bioattn.system.progress import NoProgress, Progress
from bioattn.text import quoted

BATCH_SIZE = 64

Head = tuple[str, int]
"""Site and number of a head."""


class Figures(NamedTuple):
    """How well a model does on the genes asked for."""

    loss: float
    """Mean over measured cells."""
    accuracy: float
    """Mean over treatments of Pearson r (regression) or AUROC (binary)."""


class PruningStep(NamedTuple):
    """One step of `greedy_pruning`; the first has nothing removed."""

    heads_left: int
    removed: Head | None
    importance: float
    """Of the head removed, among those that were left; NaN in the first row."""
    figures: Figures
    """With this head and those before it silenced."""


class HeadScorer:
    """Scores a model's heads on one split of a dataset."""

    def __init__(self, model: LoadedPromoterModel, dataset: PromoterDataset, split: int) -> None:
        """split: TRAIN, VALIDATION or TEST of `bioattn.promoters.dataset`; treatments are those of training.

        Raises: BioattnError when the model has no attention, or the split no measured cell of its treatments.
        """
        self._model = model
        self._dataset = dataset
        self.sites = {name: site for name, (_, site) in attention_layers(model.model).items()}
        if not self.sites:
            raise BioattnError(
                f"the model has no attention heads: --conditioning {model.config.conditioning} has no attention"
            )
        if dataset.length != model.length:
            raise BioattnError(
                f"the dataset holds promoters of {dataset.length} bases, the model takes {model.length}"
            )
        if dataset.task != model.task:
            raise BioattnError(f"the dataset's task is {dataset.task}, the model's {model.task}")
        columns = {name: column for column, name in enumerate(dataset.treatments.names)}
        self.treatments = [name for name in model.treatments.names if name in columns]
        self.genes = dataset.genes_in(split)
        self._targets_GT = self._standard_targets(
            np.array([columns[name] for name in self.treatments], np.int64)
        )
        if not np.isfinite(self._targets_GT).any():
            raise BioattnError(
                f"no response of the {SPLIT_NAMES[split]} genes to the treatments of the model "
                f"({quoted(model.treatments.names)}) is in the dataset"
            )
        self._batch = model.encode_treatments(model.treatments.select(self.treatments))
        self._loss = Loss.BINARY if model.task == "binary" else Loss.MSE

    @property
    def heads(self) -> list[Head]:
        """All heads, site by site."""
        return [(name, head) for name, site in self.sites.items() for head in site.head_numbers]

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, NDArray[np.float64]]:
        """Mean |∂ loss / ∂ mask| over the measured genes, per treatment (T,); NaN for one without any.

        Heads in `silenced` have masks of 0 and are left out.
        """
        sums = {name: np.zeros((len(self.treatments), site.num_heads)) for name, site in self.sites.items()}
        for codes_BL, targets_BT in self._batches():
            masks = self._masks(silenced, codes_BL.shape[0])
            for mask in masks.values():
                mask.requires_grad_()
            with masked_heads(self._model.model, masks):
                answers_BT = self._model.model.standardised(codes_BL, self._batch).float()
            # A cell's answer depends on its own masks alone, so one backward pass gives every cell's gradient.
            loss = cell_losses(answers_BT, targets_BT, self._loss, 1.0).sum()
            gradients = torch.autograd.grad(loss, list(masks.values()))
            for name, gradient in zip(masks, gradients, strict=True):
                by_cell_BTH = gradient.reshape(codes_BL.shape[0], len(self.treatments), -1)
                sums[name] += by_cell_BTH.abs().sum(0).double().cpu().numpy()
        measured_T = np.isfinite(self._targets_GT).sum(0).astype(np.float64)
        measured_T[measured_T == 0] = np.nan
        return {
            (name, head): sums[name][:, place] / measured_T
            for name, site in self.sites.items()
            for place, head in enumerate(site.head_numbers)
            if (name, head) not in silenced
        }

    def over_cells(self, by_treatment_T: NDArray[np.float64]) -> float:
        """The mean over measured cells of a mean per treatment."""
        measured_T = np.isfinite(self._targets_GT).sum(0)
        return float(np.nansum(by_treatment_T * measured_T) / measured_T.sum())

    def figures(self, silenced: Collection[Head] = ()) -> Figures:
        """Loss and accuracy with some heads silenced."""
        answers, losses = [], 0.0
        with torch.inference_mode(), masked_heads(self._model.model, self._masks(silenced, 1)):
            for codes_BL, targets_BT in self._batches():
                answers_BT = self._model.model.standardised(codes_BL, self._batch).float()
                losses += float(cell_losses(answers_BT, targets_BT, self._loss, 1.0).double().sum())
                answers.append(answers_BT.cpu().numpy())
        scores = per_treatment(self._targets_GT, np.concatenate(answers), self._model.task)
        accuracy = scores["auroc" if self._model.task == "binary" else "pearson"]
        return Figures(
            losses / int(np.isfinite(self._targets_GT).sum()),
            float(np.nanmean(accuracy)) if np.isfinite(accuracy).any() else float("nan"),
        )

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        for first in range(0, len(self.genes), BATCH_SIZE):
            rows = slice(first, first + BATCH_SIZE)
            yield (
                centred_windows(self._dataset, self.genes[rows]).to(self._model.device),
                torch.from_numpy(self._targets_GT[rows]).to(self._model.device),
            )

    def _masks(self, silenced: Collection[Head], promoters: int) -> dict[str, Tensor]:
        """1 for every head but those silenced: (B, T, H), with an axis for queries where the site has one."""
        masks = {}
        for name, site in self.sites.items():
            mask_H = torch.tensor(
                [float((name, head) not in silenced) for head in site.head_numbers], device=self._model.device
            )
            queries = (1,) if "query" in site.axes else ()
            shape = (promoters, len(self.treatments), *queries, site.num_heads)
            masks[name] = mask_H.expand(shape).clone()
        return masks

    def _standard_targets(self, columns: NDArray[np.int64]) -> NDArray[np.float32]:
        """Targets in the model's standard units (binary: 0 and 1), NaN where not measured."""
        dataset, model = self._dataset, self._model.model
        targets_GT = dataset.targets[np.ix_(self.genes, columns)].astype(np.float64)
        if dataset.task == "binary":
            return targets_GT.astype(np.float32)
        if dataset.target_mean is not None and dataset.target_sd is not None:
            targets_GT = targets_GT * dataset.target_sd[columns] + dataset.target_mean[columns]
        index = [self._model.treatments.names.index(name) for name in self.treatments]
        mean_T, sd_T = (
            buffer.cpu().numpy()[index] for buffer in (model.response_mean_T, model.response_sd_T)
        )
        standard_GT: NDArray[np.float32] = ((targets_GT - mean_T) / sd_T).astype(np.float32)
        return standard_GT


def leave_one_out(scorer: HeadScorer, progress: Progress | None = None) -> dict[Head, Figures]:
    """Loss and accuracy without each head, the others as they are."""
    progress = progress or NoProgress()
    progress.begin("one head left out", len(scorer.heads))
    found = {}
    for head in scorer.heads:
        found[head] = scorer.figures({head})
        progress.advance()
    progress.end()
    return found


def greedy_pruning(scorer: HeadScorer, progress: Progress | None = None) -> list[PruningStep]:
    """Silence the least important head, look again at those left, and so on until each site has one."""
    progress = progress or NoProgress()
    left = {name: list(site.head_numbers) for name, site in scorer.sites.items()}
    steps = [PruningStep(len(scorer.heads), None, float("nan"), scorer.figures())]
    silenced: set[Head] = set()
    progress.begin("pruning", len(scorer.heads) - len(left))
    while any(len(heads) > 1 for heads in left.values()):
        importance = {
            head: scorer.over_cells(values)
            for head, values in scorer.importance(silenced).items()
            if len(left[head[0]]) > 1
        }
        least = min(importance, key=lambda head: importance[head])  # the first of equals, so it repeats
        left[least[0]].remove(least[1])
        silenced.add(least)
        figures = scorer.figures(silenced)
        steps.append(PruningStep(steps[-1].heads_left - 1, least, importance[least], figures))
        progress.advance()
    progress.end()
    return steps


def heads_left(scorer: HeadScorer, steps: list[PruningStep], number: int) -> Mapping[str, list[int]]:
    """By site, the heads that are there when `number` are left.

    Raises: BioattnError when that is not one of the steps.
    """
    if number not in {step.heads_left for step in steps}:
        raise BioattnError(
            f"--prune-to {number}: the model has {steps[0].heads_left} heads at {len(scorer.sites)} sites, "
            f"and each keeps at least one; ask for {steps[-1].heads_left} to {steps[0].heads_left}"
        )
    gone = {step.removed for step in steps if step.heads_left >= number}
    return {
        name: [head for head in site.head_numbers if (name, head) not in gone]
        for name, site in scorer.sites.items()
    }
