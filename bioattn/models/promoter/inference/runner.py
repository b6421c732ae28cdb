"""A promoter model and the treatments it is asked for: batches in, predictions and attention out.

Shape suffixes: B promoters, L bases, T treatments.
"""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.models.promoter.inference.batches import N_CODE
from bioattn.models.promoter.inference.phases import PhaseAverage, shifted
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.schema import AttentionOptions, GroupLayout

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

MAX_BATCH = 64
ACTIVATION_BYTES = 1 << 25
"""What the widest tensor of a batch may take, so that a genome runs in flat memory whatever the treatments."""
MAX_PHASE_BYTES = 1 << 26
"""What the averaged maps of a batch may take at one site: they are finer than the model's."""


class PromoterRunner:
    """A model, the treatments it is asked for and, if anyone listens, the receiver of its attention."""

    def __init__(
        self, model: "LoadedPromoterModel", treatments: TreatmentTable, batch_size: int | None
    ) -> None:
        self.model = model
        self.device = next(model.model.parameters()).device
        self.treatments = model.encode_treatments(treatments).to(self.device)
        self.names = treatments.names
        self.binary = model.task == "binary"
        self._receiver: BatchReceiver | None = None
        self._sites: list[str] = []
        self._value_weighted = False
        self._average: PhaseAverage | None = None
        self._arrays: dict[str, dict[str, NDArray[np.floating]]] = {}
        self._batch_may_shrink = batch_size is None
        self.batch_size = batch_size or self._fitting_batch()

    def listen(self, options: AttentionOptions) -> list[GroupLayout]:
        """Collect attention from now on; a trial batch of one shows the shapes that there will be.

        Raises: SettingsError when the model lacks the sites or heads asked for.
        """
        self._sites = choose_sites(self.model.sites, options.sites)
        self._value_weighted = options.value_weighted
        self._receiver = BatchReceiver(options, {"treatment": self.names})
        self.predict(self._nothing_known())
        self._receiver.take()
        layouts = [self._receiver.layouts[name] for name in self._sites]
        if options.phases == 1:
            return layouts
        self._average = PhaseAverage(layouts, self.model.config.pool, options.phases)
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
                    answer_BT = self.model.model(codes, self.treatments)
                else:
                    with capture(self._sites, self._receiver, value_weighted=self._value_weighted):
                        answer_BT = self.model.model(codes, self.treatments)
                answer_BT = torch.sigmoid(answer_BT) if self.binary else answer_BT
                predictions: NDArray[np.float32] = answer_BT.float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{self.device}: out of memory with {len(codes_BL)} promoters × {len(self.names)} treatments at a "
                "time; give a smaller --batch-size"
            ) from error
        return predictions

    def attention(self) -> dict[str, dict[str, NDArray[np.floating]]]:
        """What the last batch attended to."""
        arrays, self._arrays = self._arrays, {}
        return arrays

    def fingerprint(self) -> str:
        """Digest of the treatments as the model takes them."""
        digest = hashlib.sha256("\0".join(self.names).encode())
        for tensor in self.treatments[1:]:
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _fitting_batch(self) -> int:
        """Promoters whose widest tensor stays within `ACTIVATION_BYTES`, seen in a trial batch of one.

        The trial listens to all attention, so that predictions with and without it form the same batches.
        """
        meter = _Meter()
        with meter, capture(["*"], meter, value_weighted=True):
            self.predict(self._nothing_known())
        return max(1, min(MAX_BATCH, ACTIVATION_BYTES // max(1, meter.widest, meter.attention)))

    def _nothing_known(self) -> NDArray[np.uint8]:
        """One promoter of N alone, for trial batches: shapes do not depend on the bases."""
        return np.full((1, self.model.length), N_CODE, dtype=np.uint8)


class _Meter(TorchFunctionMode):
    """Notes the bytes of the widest tensor any operation makes, and of all attention together."""

    def __init__(self) -> None:
        super().__init__()
        self.widest = 0
        self.attention = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call through and look at what comes back."""
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.widest = max(self.widest, made.numel() * made.element_size())
        return made

    def receive(
        self, _site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        """Be the receiver of the attention."""
        for tensor in (weights, value_weighted):
            self.attention += 0 if tensor is None else tensor.numel() * tensor.element_size()
