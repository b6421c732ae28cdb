"""How much each attention head of an MSA/pair model matters for the distances it predicts.

As for promoter models (`bioattn.models.promoter.heads`): the size of the loss's slope in a mask on
what the head gives (Michel, Levy & Neubig 2019), here one slope per protein, averaged over proteins. The loss is
the cross-entropy of the distogram over all pairs of residues with known distance, row 1 as target, first draw of
the alignment. Heads of invariant point attention, which are joined with other quantities, are not among them.

Shape suffixes: R residues, H heads.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.alignments.contact_dataset import SPLIT_NAMES, open_contact_dataset
from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.errors import BioattnError
from bioattn.inference.runner import Head
from bioattn.models.evoformer.heads import sample_losses
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.training_families import TrainingFamily, load_families
from bioattn.structures.contacts import distances
from bioattn.system.progress import Progress, watched

if TYPE_CHECKING:
    from bioattn.models.evoformer.run import LoadedEvoformerModel

SEED = 0
"""Of the draw of rows and of masked cells, as `bioattn run evoformer` has it by default."""


class AlignmentHeadScorer:
    """Scores a model's heads on the proteins of a contact dataset: a `bioattn.inference.runner.HeadScorer`."""

    item = "protein"

    def __init__(
        self, model: "LoadedEvoformerModel", dataset_path: Path, split: str, progress: Progress
    ) -> None:
        """Read the proteins of a split. Raises: BioattnError when there are none."""
        dataset = open_contact_dataset(dataset_path)
        indices = dataset.proteins_in(SPLIT_NAMES.index(split)).tolist()
        if not indices:
            raise BioattnError(
                f"{dataset_path}: no protein is in the {split} split; choose another with --split"
            )
        self._model, self._progress = model, progress
        covariance = bool(model.config.pair_features)
        self._families = load_families(dataset, indices, covariance=covariance, progress=progress)
        self.sites = {name: site for name, (_, site) in attention_layers(model.model).items()}
        self.items = [family.protein.id for family in self._families]

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, NDArray[np.float64]]:
        """|∂ loss / ∂ mask| of every head for every protein. silenced: none, as no such model is pruned.

        Raises: BioattnError when the model predicts no distances.
        """
        families = watched(self._progress, "head importance", self._families)
        gradients = [self._gradients(family) for family in families]
        return {
            (name, head): np.array([gradients_H[name][place] for gradients_H in gradients])
            for name, site in self.sites.items()
            for place, head in enumerate(site.heads)
        }

    def overall(self, by_item: NDArray[np.float64]) -> float:
        return float(by_item.mean())

    def passes(self) -> Iterator[Callable[[], object]]:
        for family in self._families:
            yield partial(self._model.model, self._inputs(family))

    def record(self) -> dict[str, Any]:
        return {"proteins": len(self.items), "loss": "cross-entropy of the distogram"}

    def _inputs(self, family: TrainingFamily) -> ModelInputs:
        """The first draw of an alignment."""
        model = self._model
        alignment = family.inputs(model.inputs, covariance=bool(model.config.pair_features))
        return alignment.sample(SEED, 0).to(model.device)

    def _gradients(self, family: TrainingFamily) -> dict[str, NDArray[np.float64]]:
        """|∂ loss / ∂ mask| for one protein, by site, (H,)."""
        model, inputs = self._model, self._inputs(family)
        distances_RR = torch.from_numpy(distances(family.protein.cb[family.columns])).to(model.device)
        masks = {
            name: torch.ones(site.num_heads, device=model.device, requires_grad=True)
            for name, site in self.sites.items()
        }
        with torch.enable_grad(), masked_heads(model.model, masks):
            # Activations of all blocks at once would not fit for long alignments.
            logits = model.model(inputs, recompute=True).distogram_logits
            if logits is None:
                raise BioattnError(
                    "the model predicts no distances, so there is no loss its heads could change"
                )
            index = inputs.residue_index
            nothing = torch.zeros((1, 1), device=model.device)
            loss = sample_losses(
                logits.float(), None, distances_RR, index[:, None] - index[None, :], nothing.long(), nothing
            ).distogram
            gradients = torch.autograd.grad(loss, list(masks.values()), allow_unused=True)
        return {
            name: np.zeros(mask.shape) if gradient is None else gradient.abs().double().cpu().numpy()
            for (name, mask), gradient in zip(masks.items(), gradients, strict=True)
        }
