"""Gradients with respect to the bases: gradient × input, and integrated gradients.

Both read the bases as numbers (`Predictor.forward` with `letters_BLA`; a model that looks words up goes on with
the expectation over independent bases). A binary model is explained in log-odds.

Shape suffixes: B promoters, T treatments, L bases, A the four bases, S points on the way.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.inference.runner import Predictor
from bioattn.interpret.attribution.values import UNKNOWN, Attribution, centred
from bioattn.interpret.choices import AttributionBaseline
from bioattn.promoters.dinucleotide_shuffle import dinucleotide_shuffled

SHUFFLES = 20
"""Shuffled sequences whose mean is the baseline `dinucleotide-shuffled`."""


class GradientInput:
    """The gradient with its mean over the four bases removed (Majdandzic et al. 2023), one pass a treatment.

    The mean is the part of the gradient that leads off the space of sequences, where the model has seen nothing.
    The value of the base that is there is gradient × input of the corrected gradient.
    """

    promoters_at_once = 8

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) → predictions and values."""
        codes = torch.from_numpy(codes_BL).to(self._predictor.runner.device)
        with torch.no_grad():
            prediction_BT = self._predictor.forward(codes)
        bases_BLA = one_hot(codes)
        with frozen(self._predictor.runner.model):
            gradients = [
                _gradient(self._predictor, codes, bases_BLA, treatment)
                for treatment in range(len(self._predictor.names))
            ]
        values_BTLA = torch.stack(gradients, dim=1).cpu().numpy()
        return Attribution(prediction_BT.cpu().numpy(), centred(values_BTLA, codes_BL))


class IntegratedGradients:
    """The mean gradient on the straight way from a baseline (Sundararajan et al. 2017), by the midpoint rule.

    The mean gradient times the step from the baseline sums to f(promoter) − f(baseline), up to the gap that is
    reported. The values are the mean gradients centred over the bases; from the uniform baseline those of the
    bases that are there have that sum too.
    """

    promoters_at_once = 1

    def __init__(
        self,
        predictor: Predictor,
        *,
        steps: int = 50,
        baseline: AttributionBaseline = AttributionBaseline.UNIFORM,
        seed: int = 0,
    ) -> None:
        self._predictor = predictor
        self._steps = steps
        self._baseline = baseline
        self._seed = seed

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) → predictions, values and how far the contributions are from their sum."""
        answers = [self._one(codes_L) for codes_L in codes_BL]
        predictions, values, gaps = (np.stack(arrays) for arrays in zip(*answers, strict=True))
        return Attribution(predictions, centred(values, codes_BL), gaps)

    def baseline(self, codes_L: NDArray[np.uint8]) -> Tensor:
        """The baseline of a promoter, (L, 4)."""
        known_L1 = torch.from_numpy(codes_L < UNKNOWN)[:, None].float()
        match self._baseline:
            case AttributionBaseline.UNIFORM:
                return (known_L1 / 4).expand(-1, 4)
            case AttributionBaseline.ZEROS:
                return torch.zeros(len(codes_L), 4)
            case AttributionBaseline.DINUCLEOTIDE_SHUFFLED:
                # From the sequence itself, so that a promoter's baseline does not depend on those before it.
                random = np.random.default_rng([self._seed, *codes_L.tolist()])
                shuffled = dinucleotide_shuffled(np.tile(codes_L, (SHUFFLES, 1)), random)
                return one_hot(torch.from_numpy(shuffled)).mean(0)

    def _one(
        self, codes_L: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Prediction (T,), mean gradient (T, L, 4) and gap (T,) of one promoter."""
        predictor, device = self._predictor, self._predictor.runner.device
        codes_1L = torch.from_numpy(codes_L)[None].to(device)
        bases_1LA = one_hot(codes_1L)
        begin_1LA = self.baseline(codes_L)[None].to(device)
        share_S11 = ((torch.arange(self._steps, device=device) + 0.5) / self._steps)[:, None, None]
        way_SLA = begin_1LA + share_S11 * (bases_1LA - begin_1LA)
        codes_SL = codes_1L.expand(self._steps, -1)
        with frozen(predictor.runner.model):
            prediction_T = predictor.forward(codes_1L)[0]
            begin_T = predictor.forward(codes_1L, begin_1LA)[0]
            mean_TLA = torch.stack(
                [
                    _gradient(predictor, codes_SL, way_SLA, treatment).mean(0)
                    for treatment in range(len(predictor.names))
                ]
            )
        sum_T = ((bases_1LA - begin_1LA) * mean_TLA).sum((1, 2))
        gap_T = prediction_T - begin_T - sum_T
        return prediction_T.cpu().numpy(), mean_TLA.cpu().numpy(), gap_T.cpu().numpy()


def one_hot(codes_BL: Tensor) -> Tensor:
    """uint8 codes (B, L) → float32 (B, L, 4); N is all zeros."""
    # Written base by base and then turned, as models read their input.
    bases_A1 = torch.arange(4, device=codes_BL.device, dtype=codes_BL.dtype)[:, None]
    return (codes_BL.unsqueeze(1) == bases_A1).float().transpose(1, 2)


def _gradient(predictor: Predictor, codes_BL: Tensor, bases_BLA: Tensor, treatment: int) -> Tensor:
    """Gradient (B, L, 4) of the responses to one treatment."""
    with torch.enable_grad():
        bases_BLA = bases_BLA.detach().requires_grad_()
        response_B1 = predictor.chosen([treatment]).forward(codes_BL, bases_BLA)
        (gradient_BLA,) = torch.autograd.grad(response_B1.sum(), bases_BLA)
    return gradient_BLA


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Keep parameters out of gradients: those of the bases are all that is wanted."""
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in wanted:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
