"""How much each attention head of a promoter model matters.

Importance is the mean over measured cells of |∂ loss / ∂ mask|, where the mask multiplies what the head gives
(Michel, Levy & Neubig 2019, "Are sixteen heads really better than one?"): to first order, how much the loss of a
cell changes when the head is silenced, whichever way. Beside it stands what silencing the head really does.

Losses are those of training: squared error in units of the training responses' standard deviation, cross-entropy
for a binary task.

Shape suffixes: B promoters of a batch, G genes, T treatments, L bases, H heads.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.head_masks import attention_layers, masked_heads
from bioattn.errors import BioattnError
from bioattn.inference.runner import Head, HeadFigures
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.training.batches import centred_windows
from bioattn.models.promoter.training.config import Loss
from bioattn.models.promoter.training.losses import cell_losses
from bioattn.promoters.dataset import SPLIT_NAMES, PromoterDataset
from bioattn.promoters.response_metrics import known_mean, per_treatment
from bioattn.text import quoted

BATCH_SIZE = 64


class PromoterHeadScorer:
    """Scores a model's heads on one split of a dataset: a `bioattn.inference.runner.SilencingScorer`."""

    item = "treatment"

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
        self.items = [name for name in model.treatments.names if name in columns]
        self.genes = dataset.genes_in(split)
        self._targets_GT = self._standard_targets(np.array([columns[name] for name in self.items], np.int64))
        if not np.isfinite(self._targets_GT).any():
            raise BioattnError(
                f"no response of the {SPLIT_NAMES[split]} genes to the treatments of the model "
                f"({quoted(model.treatments.names)}) is in the dataset"
            )
        self._batch = model.encode_treatments(model.treatments.select(self.items))
        self._loss = Loss.BINARY if model.task == "binary" else Loss.MSE

    def record(self) -> dict[str, Any]:
        binary = self._model.task == "binary"
        return {
            "genes": len(self.genes),
            "treatments": len(self.items),
            "loss": "cross-entropy" if binary else "squared error, standard units",
            "accuracy": "mean AUROC over treatments" if binary else "mean Pearson r over treatments",
        }

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, NDArray[np.float64]]:
        """Mean |∂ loss / ∂ mask| over the measured genes, per treatment (T,); NaN for one without any.

        Heads in `silenced` have masks of 0 and are left out.
        """
        sums = {name: np.zeros((len(self.items), site.num_heads)) for name, site in self.sites.items()}
        for codes_BL, targets_BT in self._batches():
            masks = self._masks(silenced, codes_BL.shape[0])
            for mask in masks.values():
                mask.requires_grad_()
            with masked_heads(self._model.model, masks):
                answers_BT = self._answers(codes_BL)
            losses_BT = cell_losses(answers_BT, targets_BT, self._loss, 1.0)
            for name, gradient in self._mask_gradients(losses_BT, masks).items():
                by_cell_BTH = gradient.reshape(codes_BL.shape[0], len(self.items), -1)
                sums[name] += by_cell_BTH.abs().sum(0).double().cpu().numpy()
        measured_T = np.isfinite(self._targets_GT).sum(0).astype(np.float64)
        measured_T[measured_T == 0] = np.nan
        return {
            (name, head): sums[name][:, place] / measured_T
            for name, site in self.sites.items()
            for place, head in enumerate(site.heads)
            if (name, head) not in silenced
        }

    def _mask_gradients(self, losses_BT: Tensor, masks: dict[str, Tensor]) -> dict[str, Tensor]:
        """Every cell's gradient with respect to its masks, the axis of treatments second."""
        # Treatments share the masks of the stem: there each needs a backward pass of its own. Elsewhere a cell
        # depends on its own masks alone, and one pass gives the gradients of all.
        shared = [name for name in masks if "treatment" not in self.sites[name].dims]
        own = [name for name in masks if name not in shared]
        by_treatment = [
            torch.autograd.grad(losses_B.sum(), [masks[name] for name in shared], retain_graph=True)
            for losses_B in (losses_BT.unbind(1) if shared else ())
        ]
        at_once = torch.autograd.grad(losses_BT.sum(), [masks[name] for name in own])
        return dict(zip(own, at_once, strict=True)) | {
            name: torch.stack(each, dim=1)
            for name, each in zip(shared, zip(*by_treatment, strict=True), strict=True)
        }

    def overall(self, by_item: NDArray[np.float64]) -> float:
        """The mean over measured cells of a mean per treatment."""
        measured_T = np.isfinite(self._targets_GT).sum(0)
        return float(np.nansum(by_item * measured_T) / measured_T.sum())

    def passes(self) -> Iterator[Callable[[], object]]:
        for codes_BL, _ in self._batches():
            yield partial(self._answers, codes_BL)

    def figures(self, silenced: Collection[Head] = ()) -> HeadFigures:
        answers, losses = [], 0.0
        with torch.inference_mode(), masked_heads(self._model.model, self._masks(silenced, 1)):
            for codes_BL, targets_BT in self._batches():
                answers_BT = self._answers(codes_BL)
                losses += float(cell_losses(answers_BT, targets_BT, self._loss, 1.0).double().sum())
                answers.append(answers_BT.cpu().numpy())
        scores = per_treatment(self._targets_GT, np.concatenate(answers), self._model.task)
        accuracy = scores["auroc" if self._model.task == "binary" else "pearson"]
        return HeadFigures(losses / int(np.isfinite(self._targets_GT).sum()), known_mean(accuracy))

    def _answers(self, codes_BL: Tensor) -> Tensor:
        """Standard units (B, T), logits of a binary model."""
        model = self._model.model
        answers_BT: Tensor = (model if self._model.task == "binary" else model.standardised)(
            codes_BL, self._batch
        )
        return answers_BT.float()

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        for first in range(0, len(self.genes), BATCH_SIZE):
            rows = slice(first, first + BATCH_SIZE)
            yield (
                centred_windows(self._dataset, self.genes[rows]).to(self._model.device),
                torch.from_numpy(self._targets_GT[rows]).to(self._model.device),
            )

    def _masks(self, silenced: Collection[Head], promoters: int) -> dict[str, Tensor]:
        """1 for every head but those silenced: (B, T, H), with an axis for queries where the site has one, and
        without that of treatments where it has none."""
        masks = {}
        for name, site in self.sites.items():
            mask_H = torch.tensor(
                [float((name, head) not in silenced) for head in site.heads], device=self._model.device
            )
            treatments = (len(self.items),) if "treatment" in site.dims else ()
            queries = (1,) if "query" in site.dims else ()
            shape = (promoters, *treatments, *queries, site.num_heads)
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
        index = [self._model.treatments.names.index(name) for name in self.items]
        mean_T, sd_T = (
            buffer.cpu().numpy()[index] for buffer in (model.response_mean_T, model.response_sd_T)
        )
        standard_GT: NDArray[np.float32] = ((targets_GT - mean_T) / sd_T).astype(np.float32)
        return standard_GT
