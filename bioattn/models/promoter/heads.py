"""How much each attention head of a promoter model matters, and models with fewer heads.

Importance is the mean over measured cells of |∂ loss / ∂ mask|, where the mask multiplies what the head gives
(Michel, Levy & Neubig 2019, "Are sixteen heads really better than one?"): to first order, how much the loss of a
cell changes when the head is silenced, whichever way. Beside it stands what silencing the head really does.
Losses are those of training: squared error in units of the training responses' standard deviation, cross-entropy
for a binary task.

A pruned model predicts what the whole model predicts with the other heads silenced (their part of the sum in the
output projection is 0). Heads keep their numbers: head 3 of the whole model is head 3 of the pruned model, in its
attention files too.

Shape suffixes: B promoters of a batch, G genes, T treatments, L bases, H heads, D channels of a head.
"""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.choices import SPLIT_NAMES, TEST
from bioattn.errors import BioattnError
from bioattn.inference.runner import Head, HeadFigures
from bioattn.io.files import text_output
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import MODEL_CARD
from bioattn.models.promoter.config import Loss
from bioattn.models.promoter.family import TREATMENTS
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.training.data import cell_losses, centred_windows
from bioattn.models.promoter.training.evaluation import card_lines, evaluate, response_units
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.promoters.response_metrics import known_mean, per_treatment
from bioattn.store.training_record import COMPARISON, HISTORY, read_training_record, write_training_record
from bioattn.text import quoted
from bioattn.training.run import publish, working_folder

BATCH_SIZE = 64


class PromoterHeadScorer:
    """Scores a model's heads on one split of a dataset: a `bioattn.inference.runner.HeadScorer`."""

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
        chosen = np.array([columns[name] for name in self.items], np.int64)
        index = [model.treatments.names.index(name) for name in self.items]
        mean_T, sd_T = (
            torch.stack([getattr(member, name) for member in model.model.members]).sum(0)[index]
            for name in ("response_mean_T", "response_sd_T")
        )
        if model.task == "binary":  # logits have no units
            mean_T, sd_T = torch.zeros_like(mean_T), torch.ones_like(sd_T)
        self._units = mean_T, sd_T
        """The model's standard units, which targets (NaN = not measured) and answers are in."""
        unit_mean_T, unit_sd_T = response_units(dataset, chosen)
        targets_GT = dataset.targets[np.ix_(self.genes, chosen)] * unit_sd_T + unit_mean_T
        standard_GT = (targets_GT - mean_T.cpu().numpy()) / sd_T.cpu().numpy()
        self._targets_GT: NDArray[np.float32] = standard_GT.astype(np.float32)
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
            # Treatments share the masks of the stem: there each needs a backward pass of its own. Elsewhere a cell
            # depends on its own masks alone, and one pass gives the gradients of all.
            shared = [name for name in masks if "treatment" not in self.sites[name].dims]
            own = [name for name in masks if name not in shared]
            by_treatment = [
                torch.autograd.grad(losses_B.sum(), [masks[name] for name in shared], retain_graph=True)
                for losses_B in (losses_BT.unbind(1) if shared else ())
            ]
            gradients = [torch.stack(each, dim=1) for each in zip(*by_treatment, strict=True)]
            gradients += torch.autograd.grad(losses_BT.sum(), [masks[name] for name in own])
            for name, gradient in zip([*shared, *own], gradients, strict=True):
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
        mean_T, sd_T = self._units
        answers_BT: Tensor = (self._model.model(codes_BL, self._batch) - mean_T) / sd_T
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


HEAD_AXIS = {
    **dict.fromkeys(("project_query.weight", "project_query.bias", "project_key.weight"), 0),
    **dict.fromkeys(("project_value.weight", "project_value.bias"), 0),
    "project_output.weight": 1,
    **dict.fromkeys(("sink_key_HD", "score.weight_HD", "score.width_HD"), 0),
}
"""The axis of heads, or of heads × channels of a head, of arrays of `MultiHeadAttention`."""


def pruned(
    model: PromoterModel, vocabulary: TreatmentVocabulary, keep: Mapping[str, Sequence[int]]
) -> PromoterModel:
    """Copy of `model` with only the heads `keep`, given by attention site; sites not named keep all heads."""
    sites = attention_sites(model)
    left = {name: tuple(sorted(set(keep.get(name, site.heads)))) for name, site in sites.items()}
    device = next(model.parameters()).device
    configs = [
        replace(member.config, heads_left=tuple(left[name] for name in attention_sites(member)))
        for member in model.members
    ]
    smaller = PromoterModel(configs, vocabulary)
    weights = dict(model.state_dict())
    for prefix, attention in model.named_modules():
        if not isinstance(attention, MultiHeadAttention):
            continue
        places = [attention.site.heads.index(head) for head in left[attention.site.name]]
        for name, tensor in attention.state_dict().items():
            if (axis := HEAD_AXIS.get(name)) is not None:
                by_head = tensor.unflatten(axis, (attention.num_heads, -1))
                index = torch.tensor(places, device=tensor.device)
                weights[f"{prefix}.{name}"] = by_head.index_select(axis, index).flatten(axis, axis + 1)
    smaller.load_state_dict(weights)
    return smaller.to(device).train(model.training)


def write_pruned(
    model: LoadedPromoterModel,
    output: Path,
    model_folder: Path,
    dataset_path: Path,
    keep: Mapping[str, Sequence[int]],
    note: Mapping[str, Any],
    *,
    force: bool,
) -> tuple[float, float] | None:
    """Write the folder `output` of `model`, which lies in `model_folder`, with the heads `keep` alone.

    note: goes into the training record. Returns the accuracies of whole and pruned model on the dataset's test
    genes; None without any.
    """
    dataset = read_dataset(dataset_path)
    smaller = pruned(model.model, model.vocabulary, keep).eval()
    loaded = replace(model, model=smaller)
    record = read_training_record(model_folder)
    test = None
    if len(dataset.genes_in(TEST)):
        test = (
            PromoterHeadScorer(model, dataset, TEST).figures().accuracy,
            PromoterHeadScorer(loaded, dataset, TEST).figures().accuracy,
        )
    with working_folder(output, resume=False, force=force) as partial:
        evaluation = evaluate(smaller, dataset, model.vocabulary, model.device, ())
        loaded.write(partial)
        files = [WEIGHTS, CONFIG, TREATMENTS]
        if (model_folder / HISTORY).is_file():
            files.append(HISTORY)
            shutil.copyfile(model_folder / HISTORY, partial / HISTORY)
        record |= {
            "pruned": {"from": model.sha256, **note},
            "evaluation": evaluation.to_json(),
            COMPARISON: None,
        }
        write_training_record(partial, record, files)
        with text_output(partial / MODEL_CARD) as file:
            file.write("\n".join(card_lines(smaller.config, dataset, record, evaluation)) + "\n")
        publish(partial, output)
    return test
