"""Guidance by a classifier: a model of responses that was trained on promoters with the same noise.

Shape suffixes: B promoters, L positions, T treatments.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from bioattn.choices import Noise, not_there
from bioattn.errors import BioattnError
from bioattn.inference.runner import ResponseRunner, with_ability
from bioattn.models.diffusion.sampling import Guide
from bioattn.models.family import load_runner
from bioattn.models.noise import BASES
from bioattn.store.training_record import read_training_record


def classifier_guide(
    folder: Path, noise: Noise, on: Sequence[str], off: Sequence[str], length: int, device: torch.device
) -> Guide:
    """Masked noise: what a base adds to ln p(responses | promoter), by a pass for each base that can be drawn in a
    step, which is exact (Nisonoff et al. 2024) and takes few passes, as few bases are drawn at once. Gaussian
    noise: the gradient of ln p(responses | promoter) along the evidence (Dhariwal & Nichol 2021).

    Responses of a binary model: ln of the probabilities that treatments of `on` are on and those of `off` are not.
    Of a regression: the responses themselves, with the other sign for `off`.

    Raises: BioattnError for a model that predicts no responses, was trained without this noise, reads
    another length or lacks a treatment.
    """
    deed = "guide designs: they predict no responses"
    classifier = with_ability(load_runner(folder, device), ResponseRunner, deed, "--classifier")
    record = read_training_record(folder)
    trained = record.get("training", {}).get("noise")
    if trained != noise:
        raise BioattnError(
            f"--classifier {folder}: was trained on promoters with {trained or 'no'} noise, and half-written ones "
            f'would mislead it; train it with noise = "{noise}" in [training]'
        )
    if classifier.length != length:
        raise BioattnError(
            f"--classifier {folder}: reads promoters of {classifier.length:,} bases, designs have {length:,}"
        )
    predictor = classifier.predictor()
    for option, names in (("--treatment", on), ("--not", off)):
        for name in names:
            if name not in predictor.names:
                raise not_there(option, name, folder, "treatment", predictor.names)
    sign_T = torch.tensor([float(name in on) - float(name in off) for name in predictor.names], device=device)

    def worth(codes_BL: Tensor, letters_BL4: Tensor | None = None) -> Tensor:
        """ln p of what is asked for, (B,)."""
        responses_BT = predictor.forward(codes_BL, letters_BL4) * sign_T
        if classifier.task == "binary":
            responses_BT = torch.nn.functional.logsigmoid(responses_BT) * sign_T.abs()
        return responses_BT.sum(1)

    def gradient(noised_BL4: Tensor, _: Tensor) -> Tensor:
        with torch.enable_grad():
            codes_BL4 = noised_BL4.to(device, copy=True).requires_grad_()
            known_BL = torch.zeros(codes_BL4.shape[:2], dtype=torch.uint8, device=device)
            total = worth(known_BL, codes_BL4.softmax(-1)).sum()
            return torch.autograd.grad(total, codes_BL4)[0]

    def added_by_bases(codes_BL: Tensor, now_BL: Tensor) -> Tensor:
        rows, places = now_BL.nonzero(as_tuple=True)
        mutants = codes_BL[rows].repeat_interleave(BASES, 0)
        bases = torch.arange(BASES, device=device).repeat(len(rows))
        mutants[torch.arange(len(mutants)), places.repeat_interleave(BASES)] = bases.to(mutants.dtype)
        parts = [worth(some) for some in mutants.split(predictor.batch_size)]
        added = torch.zeros(*codes_BL.shape, BASES, device=device)
        added[rows, places] = torch.cat(parts).view(-1, BASES).log_softmax(-1)
        return added

    return added_by_bases if noise is Noise.MASKED else gradient
