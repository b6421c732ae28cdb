"""A promoter model and the treatments it is asked for: batches in, predictions and attention out.

Shape suffixes: B promoters, L bases, T treatments.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.attention.capture import capture
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.batch_size import fitting_batch
from bioattn.inference.runner import WindowBatch
from bioattn.models.promoter.inference.batches import N_CODE
from bioattn.models.promoter.inference.phases import PhaseAverage, shifted
from bioattn.models.promoter.predictor import PromoterPredictor
from bioattn.store.schema import PREDICTIONS, AttentionOptions, Block, GroupLayout

MAX_BATCH = 64
MAX_PHASE_BYTES = 1 << 26
"""What the averaged maps of a batch may take at one site: they are finer than the model's."""


class PromoterRunner:
    """A model, the treatments it is asked for and, if anyone listens, the receiver of its attention."""

    def __init__(self, predictor: PromoterPredictor, batch_size: int | None) -> None:
        """batch_size: promoters per forward pass; None = what keeps memory flat."""
        self.predictor = predictor
        self.device = predictor.runner.device
        self._receiver: BatchReceiver | None = None
        self._sites: list[str] = []
        self._value_weighted = False
        self._average: PhaseAverage | None = None
        self._arrays: Mapping[str, Mapping[str, NDArray[Any]]] = {}
        self._batch_may_shrink = batch_size is None
        self.batch_size = batch_size or fitting_batch(lambda: self.predict(self._nothing_known()), MAX_BATCH)

    def listen(self, options: AttentionOptions) -> list[GroupLayout]:
        """Collect attention from now on; a trial batch of one shows the shapes that there will be.

        Raises: SettingsError when the model lacks the sites or heads asked for.
        """
        self._sites = choose_sites(self.predictor.runner.sites, options.sites)
        self._value_weighted = options.value_weighted
        self._receiver = BatchReceiver(options, {"treatment": self.predictor.names})
        self.predict(self._nothing_known())
        self._receiver.take()
        layouts = [self._receiver.layouts[name] for name in self._sites]
        if options.phases == 1:
            return layouts
        self._average = PhaseAverage(layouts, self.predictor.runner.config.pool, options.phases)
        if self._batch_may_shrink:
            finest = max(layout.bytes_of_sample() for layout in self._average.layouts)
            self.batch_size = max(1, min(self.batch_size, MAX_PHASE_BYTES // finest))
        return self._average.layouts

    def predict(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, length) codes → (B, T) responses or probabilities; attention is kept until it is asked for."""
        predictions = self._predict_window(codes_BL)
        if self._receiver is None:
            return predictions
        self._arrays = self._receiver.take()
        if self._average is not None:
            self._average.begin(self._arrays)
            for shift in self._average.shifts:
                self._predict_window(shifted(codes_BL, shift))
                self._average.add(shift, self._receiver.take())
            self._arrays = self._average.take()
        return predictions

    def _predict_window(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """As `predict`; attention goes to the receiver."""
        try:
            with torch.inference_mode():
                codes = torch.from_numpy(codes_BL).to(self.device)
                if self._receiver is None:
                    answer_BT = self.predictor.forward(codes)
                else:
                    with capture(self._sites, self._receiver, value_weighted=self._value_weighted):
                        answer_BT = self.predictor.forward(codes)
                answer_BT = torch.sigmoid(answer_BT) if self.predictor.runner.task == "binary" else answer_BT
                predictions: NDArray[np.float32] = answer_BT.float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{self.device}: out of memory with {len(codes_BL)} promoters × {len(self.predictor.names)} "
                "treatments at a time; give a smaller --batch-size"
            ) from error
        return predictions

    def compute(self, batch: WindowBatch) -> Block:
        """The predictions of a batch, and what it attended to."""
        predictions = self.predict(batch.codes)
        arrays, self._arrays = self._arrays, {}
        return Block(batch.samples, {**arrays, PREDICTIONS: {"values": predictions}})

    def _nothing_known(self) -> NDArray[np.uint8]:
        """One promoter of N alone, for trial batches: shapes do not depend on the bases."""
        return np.full((1, self.predictor.runner.length), N_CODE, dtype=np.uint8)
