"""Both kinds of noise: what is known of a promoter at a time from 0 (all of it) to 1 (nothing).

Masked: a share of the bases that equals the time is hidden. The mean over hidden bases of -ln of the true base's
probability, with the number of hidden bases drawn evenly, is an upper bound of -ln of the promoter's probability
per base (Hoogeboom et al. 2022; Sahoo et al. 2024). Gaussian: `SCALE` times the centred one-hot code, multiplied
by cos(π time / 2), plus sin(π time / 2) times normal noise (variance preserving, Nichol & Dhariwal 2021).

Shape suffixes: B promoters, L positions.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import Noise

BASES = 4
HIDDEN = 4
"""Code of a hidden base, and of an unknown one (N)."""

SCALE = 2.0
"""What the centred one-hot code is multiplied by, so that its variance is near 1."""


class Noised(NamedTuple):
    """Noised promoters, one noise level each."""

    bases: Tensor
    """As diffusion models take them, with one step: codes (B, 1, L), or numbers (B, 1, L, 4)."""
    time_B1: Tensor
    weight_BL: Tensor
    """What the surprise at each base counts; the weights of a promoter sum to 1."""


def noised(codes_BL: NDArray[np.uint8], noise: Noise, rng: np.random.Generator) -> Noised:
    """Noise promoters (codes; 4 = unknown base), their times spread evenly over 0 to 1."""
    count, length = codes_BL.shape
    known_BL = codes_BL < BASES
    time_B = (rng.permutation(count) + rng.random(count)) / count
    if noise is Noise.MASKED:
        rank_BL = np.where(known_BL, rng.random((count, length)), 2.0).argsort(1).argsort(1)
        chosen_B = np.maximum(1, np.ceil(time_B * known_BL.sum(1)))
        wanted_BL = known_BL & (rank_BL < chosen_B[:, None])
        bases_BL = np.where(wanted_BL, HIDDEN, codes_BL)
        time_B = (bases_BL == HIDDEN).mean(1)
        bases = torch.from_numpy(bases_BL)
    else:
        wanted_BL = known_BL
        signal_B, noise_B = signal_and_noise(torch.from_numpy(time_B))
        drawn = torch.from_numpy(rng.standard_normal((count, length, BASES)))
        clean = one_hot(torch.from_numpy(codes_BL)).double()
        bases = (signal_B[:, None, None] * clean + noise_B[:, None, None] * drawn).float()
    weight_BL = wanted_BL / np.maximum(1, wanted_BL.sum(1, keepdims=True))
    return Noised(
        bases[:, None], torch.from_numpy(time_B).float()[:, None], torch.from_numpy(weight_BL).float()
    )


def signal_and_noise(time: Tensor) -> tuple[Tensor, Tensor]:
    """What gaussian noise multiplies the code and the normal numbers by."""
    return (math.pi / 2 * time).cos(), (math.pi / 2 * time).sin()


def as_letters(bases: Tensor) -> Tensor:
    """Codes under gaussian noise (…, 4) in the units of one-hot bases, which they are without any noise."""
    return bases / SCALE + 1 / BASES


def one_hot(codes: Tensor) -> Tensor:
    """Centred one-hot codes (…, 4), times `SCALE`; 0 for an unknown base."""
    hot = torch.nn.functional.one_hot(codes.long(), BASES + 1)[..., :BASES].float()
    return SCALE * (hot - hot.mean(-1, keepdim=True))
