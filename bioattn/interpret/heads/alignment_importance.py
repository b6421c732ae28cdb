"""How much each attention head of an MSA/pair model matters for the distances it predicts.

As for promoter models (`bioattn.interpret.heads.promoter_importance`): the size of the loss's slope in a mask on
what the head gives (Michel, Levy & Neubig 2019), here one slope per protein, averaged over proteins. The loss is
the cross-entropy of the distogram over all pairs of residues with known distance, row 1 as target, first draw of
the alignment. Heads of invariant point attention, which are joined with other quantities, are not among them.

Shape suffixes: R residues, H heads.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.head_masks import attention_layers, masked_heads
from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError
from bioattn.models.evoformer.alignment_inputs import AlignmentInputs
from bioattn.models.evoformer.folder import LoadedEvoformerModel
from bioattn.models.evoformer.training.families import TrainingFamily
from bioattn.models.evoformer.training.losses import sample_losses
from bioattn.structures.contacts import distances
from bioattn.system.progress import NoProgress, Progress

SEED = 0
"""Of the draw of rows and of masked cells, as `bioattn run evoformer` has it by default."""


def alignment_heads(model: LoadedEvoformerModel) -> list[tuple[str, int]]:
    """Site and number of every head that can be asked, in the model's order."""
    return [(name, head) for name, site in _sites(model).items() for head in site.head_numbers]


def alignment_head_importance(
    model: LoadedEvoformerModel, families: Sequence[TrainingFamily], progress: Progress | None = None
) -> NDArray[np.float64]:
    """|∂ loss / ∂ mask| of every head for every protein: (proteins, heads), heads as `alignment_heads`.

    Raises: BioattnError when a protein has no two residues in the structure, or the model predicts no distances.
    """
    progress = progress or NoProgress()
    progress.begin("head importance", len(families))
    slopes = []
    for family in families:
        slopes.append(_slopes(model, family))
        progress.advance()
    progress.end()
    return np.array(slopes)


def _slopes(model: LoadedEvoformerModel, family: TrainingFamily) -> NDArray[np.float64]:
    settings = model.inputs
    inputs = (
        AlignmentInputs(
            encoded=family.protein.encoded(),
            columns=family.columns,
            settings=settings,
            weights=family.weights if settings.weighted_rows else None,
            pair_feat=family.covariance if model.config.pair_features else None,
        )
        .sample(SEED, 0)
        .to(model.device)
    )
    distances_RR = torch.from_numpy(distances(family.protein.cb[family.columns])).to(model.device)
    if int(torch.isfinite(distances_RR).sum()) < 2:
        raise BioattnError(
            f"protein {family.protein.id!r}: fewer than two columns have a residue in the structure"
        )
    masks = {
        name: torch.ones(site.num_heads, device=model.device, requires_grad=True)
        for name, site in _sites(model).items()
    }
    with torch.enable_grad(), masked_heads(model.model, masks):
        # Activations of all blocks at once would not fit for long alignments.
        logits = model.model(inputs, recompute=True).distogram_logits
        if logits is None:
            raise BioattnError("the model predicts no distances, so there is no loss its heads could change")
        index = inputs.residue_index
        nothing = torch.zeros((1, 1), device=model.device)
        loss = sample_losses(
            logits.float(), None, distances_RR, index[:, None] - index[None, :], nothing.long(), nothing
        ).distogram
        gradients = torch.autograd.grad(loss, list(masks.values()), allow_unused=True)
    parts = [
        np.zeros(mask.shape) if gradient is None else gradient.abs().double().cpu().numpy()
        for mask, gradient in zip(masks.values(), gradients, strict=True)
    ]
    return np.concatenate(parts)


def _sites(model: LoadedEvoformerModel) -> dict[str, AttentionSite]:
    return {name: site for name, (_, site) in attention_layers(model.model).items()}
