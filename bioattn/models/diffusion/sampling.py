"""Promoters from noise, step by step, with guidance towards the treatments that are asked for.

Guidance compares what the model expects of a base with the treatments asked for and with none known, and goes
`guidance` times the difference further (classifier-free guidance, Ho & Salimans 2022; for discrete noise Nisonoff
et al. 2024, Schiff et al. 2024): log p = (1 + W) log p(base | asked) - W log p(base).

With masked noise each step reveals bases that lie far from each other, every `steps` bases, as two neighbours
that are drawn at once cannot know of each other.

Shape suffixes: B promoters, L positions, F free positions, T treatments.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import no_capture
from bioattn.attention.site import Tile
from bioattn.choices import Noise, not_there
from bioattn.errors import BioattnError
from bioattn.inference.runner import with_ability
from bioattn.models.diffusion.model import STEP, UNKNOWN, Denoiser
from bioattn.models.family import load_runner
from bioattn.models.noise import BASES, HIDDEN, evidence, signal
from bioattn.store.training_record import read_training_record

AT_ONCE = 64
"""Promoters of a forward pass outside training, and designs that are made together."""
Guide = Callable[[Tensor, Tensor], Tensor]
"""Noised bases as the model takes them, and which of them a step draws, bool (B, L) → (B, L, 4): with masked noise
what each base adds to ln p(treatments) there, with gaussian noise the gradient of ln p(treatments)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What designs are asked for."""

    levels: tuple[int, ...]
    """Of each treatment: 0 = not said, 1 = off, …"""
    guidance: float
    steps: int
    kept: NDArray[np.uint8] = field(repr=False)
    """Bases that stay, 4 where one is to be designed; its length is that of the designs."""
    guide: Guide | None = field(default=None, repr=False)
    """A classifier to follow instead of the model's own comparison."""

    @property
    def steps_taken(self) -> int:
        """Steps: with fewer free positions than were asked for, one for each."""
        return max(1, min(self.steps, int((self.kept == HIDDEN).sum())))


def designs(
    model: Denoiser, wanted: Wanted, count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Codes (count, length) after each step; the last are the designs.

    Raises: BioattnError when guidance leads to values that are not finite.
    """
    walk = _unmasked if model.config.noise is Noise.MASKED else _denoised
    return walk(model, wanted, count, rng)


def _unmasked(
    model: Denoiser, wanted: Wanted, count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    free_F = np.flatnonzero(wanted.kept == HIDDEN)
    steps = wanted.steps_taken
    order_BS = rng.permuted(np.tile(np.arange(steps), (count, 1)), axis=1)
    step_BF = order_BS[:, np.arange(len(free_F)) % steps]
    codes_BL = np.tile(wanted.kept, (count, 1))
    for step in range(steps):
        time_B = (codes_BL == HIDDEN).mean(1)
        now_BL = np.zeros(codes_BL.shape, bool)
        now_BL[:, free_F] = step_BF == step
        bases, time, now = map(torch.from_numpy, (codes_BL, time_B, now_BL))
        codes_BL = np.where(now_BL, _drawn(model, wanted, bases, time, step, rng, now), codes_BL)
        yield codes_BL


def _denoised(
    model: Denoiser, wanted: Wanted, count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """Each step draws bases and adds to the evidence what less noise tells of them, from time 1 to 0: given the
    bases, evidence is a Brownian motion with drift, whose increments are independent."""
    free_BL = torch.from_numpy(np.tile(wanted.kept == HIDDEN, (count, 1)))
    known = torch.zeros(*free_BL.shape, BASES)
    times = torch.linspace(1, 0, wanted.steps + 1, dtype=torch.float64)
    for step, (now, then) in enumerate(itertools.pairwise(times)):
        drawn_BL = _drawn(model, wanted, known, now.repeat(count), step, rng)
        codes_BL = np.where(wanted.kept == HIDDEN, drawn_BL, wanted.kept)
        yield codes_BL
        added = signal(then) - signal(now)
        told = evidence(torch.from_numpy(codes_BL), added, rng)
        if wanted.guide is not None and wanted.guidance:
            # Dhariwal & Nichol 2021, algorithm 1: the mean moves by variance × gradient.
            uphill = wanted.guide(known, free_BL).cpu() * free_BL[..., None]
            told = told + wanted.guidance * added.float() * uphill
        known = known + told


@torch.inference_mode()
def _drawn(
    model: Denoiser,
    wanted: Wanted,
    bases: Tensor,
    time_B: Tensor,
    step: int,
    rng: np.random.Generator,
    now_BL: Tensor | None = None,
) -> NDArray[np.uint8]:
    """A base at each position, by its probability under guidance. now_BL: where bases are drawn in this step."""
    device = next(model.parameters()).device
    bases, time_B = bases.to(device), time_B.float().to(device)
    levels_BT = torch.tensor(wanted.levels, device=device).expand(len(bases), -1)

    def log_probabilities(levels_BT: Tensor) -> Tensor:
        tile = Tile(STEP, step, wanted.steps_taken)
        logits: Tensor = model(bases[:, None], time_B[:, None], levels_BT, tile)[:, 0]
        return logits.float().log_softmax(-1)

    if wanted.guide is not None:
        asked = log_probabilities(torch.full_like(levels_BT, UNKNOWN))
        if now_BL is not None:
            asked = asked + wanted.guidance * wanted.guide(bases, now_BL.to(device))
    else:
        asked = log_probabilities(levels_BT)
        if wanted.guidance:
            with no_capture():
                any_BL4 = log_probabilities(torch.full_like(levels_BT, UNKNOWN))
            asked = asked + wanted.guidance * (asked - any_BL4)
    expected = asked.softmax(-1)
    if not bool(expected.isfinite().all()):
        raise BioattnError(
            f"--guidance {wanted.guidance:g}: leads to values that are not finite; give a smaller one"
        )
    below = expected.double().cpu().numpy().cumsum(-1)
    draws = rng.random(below.shape[:-1]) * below[..., -1]
    drawn_BL: NDArray[np.uint8] = (draws[..., None] >= below[..., :-1]).sum(-1).astype(np.uint8)
    return drawn_BL


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
    classifier = with_ability(load_runner(folder, device), "predictor", deed, "--classifier")
    record = read_training_record(folder)
    trained = next((each["training"]["noise"] for each in record.get("networks", ())), None)
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
        responses_BT: Tensor = predictor.forward(codes_BL, letters_BL4) * sign_T
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
