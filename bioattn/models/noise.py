"""Both kinds of noise: what is known of a promoter at a time from 0 (all of it) to 1 (nothing).

Masked: a share of the bases that equals the time is hidden. The mean over hidden bases of -ln of the true base's
probability, with the number of hidden bases drawn evenly, is an upper bound of -ln of the promoter's probability
per base (Hoogeboom et al. 2022; Sahoo et al. 2024). Gaussian: the one-hot code plus normal noise of variance 1/s,
multiplied by s. That is the evidence of the noised code, ln p(noised code | base) up to a constant; its softmax is
what the noised base tells by itself (Graves et al. 2023). s = `signal(time)` leaves the share `time` of a base's
bits unknown, so that no times are spent on bases that are as good as known (time warping, Dieleman et al. 2022).

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
LEAST_TIME = 1e-3
"""Gaussian noise is never less than that of this time."""


class Noised(NamedTuple):
    """Noised promoters, one noise level each."""

    bases: Tensor
    """As diffusion models take them, with one step: codes (B, 1, L), or evidence (B, 1, L, 4)."""
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
        signal_B11 = signal(torch.from_numpy(time_B))[:, None, None]
        bases = evidence(torch.from_numpy(codes_BL), signal_B11, rng)
    weight_BL = wanted_BL / np.maximum(1, wanted_BL.sum(1, keepdims=True))
    return Noised(
        bases[:, None], torch.from_numpy(time_B).float()[:, None], torch.from_numpy(weight_BL).float()
    )


def signal(time: Tensor) -> Tensor:
    """s, one over the variance of the gaussian noise that leaves the share `time` of the bits of a base unknown
    while its neighbours are, within 0.01 (exact to first order in s)."""
    return -8 / 3 * math.log(BASES) * time.clamp(min=LEAST_TIME).log()


def evidence(codes_BL: Tensor, signal: Tensor, rng: np.random.Generator) -> Tensor:
    """What gaussian noise of variance 1/`signal` leaves of bases, (B, L, 4); 0 for unknown ones."""
    hot_BL4 = torch.nn.functional.one_hot(codes_BL.long(), BASES + 1)[..., :BASES]
    drawn_BL4 = torch.from_numpy(rng.standard_normal((*codes_BL.shape, BASES)))
    known_BL1 = (codes_BL < BASES)[..., None]
    return (known_BL1 * (signal * hot_BL4 + signal.sqrt() * drawn_BL4)).float()
