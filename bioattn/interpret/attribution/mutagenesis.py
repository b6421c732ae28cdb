"""In-silico mutagenesis: every base of a promoter replaced by each of the three others, and predicted again.

    runner = Mutagenesis(loaded_model, loaded_model.encode_treatments(table))
    predictions_BT, values_BTLA = runner(codes_BL)  # uint8 codes (B, length), 0..3 = ACGT, 4 = N

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

from bioattn.interpret.attribution.values import Attribution, centred
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.mutants.cross_mutants import CrossMutants
from bioattn.models.promoter.stem import AMBIGUOUS
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch

BATCH_BYTES = 1 << 23
"""What the widest tensor of a batch of mutants may take; larger batches leave the cache and gain nothing."""
MAX_BATCH = 64


class Mutagenesis:
    """Runs all single mutants of promoters through a model of any kind."""

    promoters_at_once = 1

    def __init__(
        self,
        model: LoadedPromoterModel,
        treatments: TreatmentBatch,
        *,
        batch_size: int | None = None,
        reuse_trunk: bool = True,
    ) -> None:
        """batch_size: mutants per forward pass; None = as many as keep memory flat. reuse_trunk: where the model
        allows (`cross`), compute only what a mutation reaches; without it each mutant is a forward pass."""
        self._model = model.model
        self._device = next(model.model.parameters()).device
        self._treatments = treatments.to(self._device)
        self._batch_size = batch_size or fitting_batch(model, treatments.size)
        network = model.model.network
        self._cross: CrossMutants | None = None
        if reuse_trunk and isinstance(network, CrossModel):
            with torch.inference_mode():
                self._cross = CrossMutants(network, self._treatments, self._batch_size)

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
            prediction_T = self._model(codes_L[None], self._treatments)[0]
            values_TLA = prediction_T.new_zeros(self._treatments.size, len(codes_L), 4)
            position_M, base_M = single_mutants(codes_L)
            for rows, answer_MT in self._answers(codes_L, position_M, base_M):
                changed_MT = self._model.in_response_units(answer_MT, self._treatments) - prediction_T
                values_TLA[:, position_M[rows], base_M[rows].long()] = changed_MT.T
        return _numpy(prediction_T), _numpy(values_TLA)

    def _answers(
        self, codes_L: Tensor, position_M: Tensor, base_M: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Some mutants at a time: their numbers, and answers (M, T) in standard units."""
        if self._cross is not None:
            yield from self._cross.answers(codes_L, position_M, base_M)
            return
        for rows in torch.arange(len(position_M), device=codes_L.device).split(self._batch_size):
            mutants_ML = codes_L.repeat(len(rows), 1)
            mutants_ML[torch.arange(len(rows), device=codes_L.device), position_M[rows]] = base_M[rows]
            yield rows, self._model.standardised(mutants_ML, self._treatments)


def single_mutants(codes_L: Tensor) -> tuple[Tensor, Tensor]:
    """Positions (int64) and new bases (uint8) of all single mutants, position by position; N is left alone."""
    bases_A = torch.arange(4, dtype=codes_L.dtype, device=codes_L.device)
    differs_LA = (codes_L[:, None] != bases_A) & (codes_L[:, None] != AMBIGUOUS)
    position_M, base_M = differs_LA.nonzero(as_tuple=True)
    return position_M, base_M.to(codes_L.dtype)


def fitting_batch(model: LoadedPromoterModel, num_treatments: int) -> int:
    """Mutants per forward pass, from the shape of the model: no tensor of a batch above `BATCH_BYTES`."""
    config = model.config
    wide = max(config.channels, config.hidden_channels, config.num_heads * config.head_channels)
    match config.conditioning:
        case "concat":
            first = config.length * config.concat_channels[0]
            widest = max(first, num_treatments * max(config.concat_hidden))
        case "cross":
            # Of the bins only those near a mutation are at hand where few keys change (`cross_mutants`).
            few = config.attention_score == "dot" and config.hops == 1
            by_treatment = max(config.num_heads * (32 if few else config.num_bins), wide)
            if config.attention_score == "additive":
                by_treatment = max(by_treatment, config.num_bins * config.num_heads * config.head_channels)
            widest = max(config.num_bins * wide, num_treatments * by_treatment)
        case _:
            widest = config.num_bins * wide * num_treatments
    return max(1, min(MAX_BATCH, BATCH_BYTES // (4 * widest)))


def _numpy(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.float().cpu().numpy()
    return array
