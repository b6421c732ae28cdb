"""Forward passes: how many samples fit into one, seen in a trial of one, and whether what comes out is finite.

Weights near the limits of float32 pass for weights and give NaN. It is checked where it is made, so that no
command writes a result that `validate` refuses.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError, NotFiniteError

ACTIVATION_BYTES = 1 << 25
"""What the widest tensor of a batch may take, so that any number of samples runs in flat memory."""
IGNORED = -100
"""Target of padding, unknown tokens and others that are not to be predicted."""


def fitting_batch(forward_one: Callable[[], object], most: int) -> int:
    """Samples per forward pass, 1 to `most`, whose widest tensor stays within `ACTIVATION_BYTES`.

    forward_one: runs one sample. The trial listens to all attention, so that predictions with and without it form
    the same batches.
    """
    meter = _Meter()
    with meter, capture(["*"], meter, value_weighted=True):
        forward_one()
    return max(1, min(most, ACTIVATION_BYTES // max(1, meter.widest, meter.attention)))


class _Meter(TorchFunctionMode):
    """Notes the bytes of the widest tensor any operation makes, and of all attention together."""

    widest = 0
    attention = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.widest = max(self.widest, made.numel() * made.element_size())
        return made

    def receive(
        self, _site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        for tensor in (weights, value_weighted):
            self.attention += 0 if tensor is None else tensor.numel() * tensor.element_size()


def padded(rows: Sequence[NDArray[np.integer]], value: int) -> Tensor:
    """Rows as one tensor (B, longest), filled up on the right."""
    filled = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled)


def drawn_tokens(logits_BV: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """One token of each row, of the likeliest that hold `top_p`; drawn on the CPU, so equally by every device."""
    if temperature < 1e-6:  # as 0; logits divided by less would overflow
        return logits_BV.argmax(-1)
    probability_BV = (logits_BV / temperature).softmax(-1).cpu()
    if top_p == 1:
        return torch.multinomial(probability_BV, 1, generator=generator).squeeze(-1).to(logits_BV.device)
    ordered_BV, place_BV = probability_BV.sort(dim=-1, descending=True, stable=True)
    before_BV = ordered_BV.cumsum(-1) - ordered_BV
    ordered_BV = ordered_BV.masked_fill(before_BV >= top_p, 0.0)
    drawn_B1 = torch.multinomial(ordered_BV, 1, generator=generator)
    chosen_B: Tensor = place_BV.gather(-1, drawn_B1).squeeze(-1).to(logits_BV.device)
    return chosen_B


def require_finite(values: NDArray[Any] | torch.Tensor, what: str, instead: str = "") -> None:
    """Check that values are finite. instead: what may help as much as another model, as ", or …".

    Raises: NotFiniteError with `what` these are.
    """
    if not bool((torch if isinstance(values, torch.Tensor) else np).isfinite(values).all()):
        half = values.dtype in (torch.float16, np.float16)
        raise NotFiniteError(what, instead or (", or --dtype float32" if half else ""))


@contextmanager
def finite_results(sample: str, model: Path | None) -> Iterator[None]:
    """Name the sample and the model that the body runs when it raises NotFiniteError.

    sample: as a message begins with it. model: its file or folder, if it has one. Raises: BioattnError.
    """
    try:
        yield
    except NotFiniteError as problem:
        name = f"the model {model}" if model is not None else "the model"
        raise BioattnError(
            f"{sample}: {name} gives NaN or infinite {problem}; use another model or input{problem.instead}"
        ) from problem
