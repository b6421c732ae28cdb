"""In-silico mutagenesis: every letter of a sequence replaced by each of the three others, and predicted again.

    mutagenesis = Mutagenesis(runner.predictor(treatments))
    predictions_BT, values_BTLA = mutagenesis(codes_BL)  # uint8 codes (B, length), 0..3 = ACGT, 4 = N

The value of a base is the prediction with it minus the prediction of the promoter as it is, centred over the four
bases (Zhou & Troyanskaya 2015; hypothetical contributions as TF-MoDISco, Shrikumar et al. 2018, reads them), so
`values[…, b] − values[…, present base]` is what the mutation to b does. Predictions of a binary model are
log-odds: probabilities near 0 or 1 would hide what a base does.

Shape suffixes: B promoters, M mutants, T treatments, L bases, A the four bases.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.runner import FastMutants, Predictor
from bioattn.interpret.attribution.values import Attribution, centred


class Mutagenesis:
    """Runs all single mutants of promoters through a model of any kind."""

    promoters_at_once = 1

    def __init__(
        self, predictor: Predictor, *, batch_size: int | None = None, reuse_trunk: bool = True
    ) -> None:
        """batch_size: mutants per forward pass; None = as many as keep memory flat. reuse_trunk: where the model
        allows, compute only what a mutation reaches; without it each mutant is a forward pass."""
        self._predictor = predictor
        self._device = predictor.runner.device
        self._batch_size = batch_size or predictor.mutant_batch_size
        self._fast: FastMutants | None = predictor.fast_mutants(self._batch_size) if reuse_trunk else None

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) as the model sees them → predictions and values, one promoter after the other."""
        answers = [self._one(torch.from_numpy(codes_L).to(self._device)) for codes_L in codes_BL]
        values_BTLA = np.stack([values for _, values in answers])
        return Attribution(
            np.stack([prediction for prediction, _ in answers]), centred(values_BTLA, codes_BL)
        )

    def _one(self, codes_L: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Prediction (T,) and differences (T, L, 4) of one promoter, not centred."""
        with torch.inference_mode():
            prediction_T = self._predictor.forward(codes_L[None])[0]
            values_TLA = prediction_T.new_zeros(len(prediction_T), len(codes_L), 4)
            position_M, base_M = single_mutants(codes_L)
            for rows, response_MT in self._responses(codes_L, position_M, base_M):
                changed_MT = response_MT - prediction_T
                values_TLA[:, position_M[rows], base_M[rows].long()] = changed_MT.T
        return _numpy(prediction_T), _numpy(values_TLA)

    def _responses(
        self, codes_L: Tensor, position_M: Tensor, base_M: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Some mutants at a time: their numbers, and responses (M, T)."""
        if self._fast is not None:
            yield from self._fast.answers(codes_L, position_M, base_M)
            return
        for rows in torch.arange(len(position_M), device=codes_L.device).split(self._batch_size):
            mutants_ML = codes_L.repeat(len(rows), 1)
            mutants_ML[torch.arange(len(rows), device=codes_L.device), position_M[rows]] = base_M[rows]
            yield rows, self._predictor.forward(mutants_ML)


def single_mutants(codes_L: Tensor) -> tuple[Tensor, Tensor]:
    """Positions (int64) and new bases (uint8) of all single mutants, position by position; N is left alone."""
    bases_A = torch.arange(4, dtype=codes_L.dtype, device=codes_L.device)
    differs_LA = (codes_L[:, None] != bases_A) & (codes_L[:, None] != UNKNOWN)
    position_M, base_M = differs_LA.nonzero(as_tuple=True)
    return position_M, base_M.to(codes_L.dtype)


def _numpy(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.float().cpu().numpy()
    return array
