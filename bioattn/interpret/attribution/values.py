"""What every attribution method returns, and how its numbers are to be read.

Shape suffixes: B promoters, T treatments, L bases, A the four bases A, C, G, T.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 4
"""Code of N."""


class Attribution(NamedTuple):
    """Attribution of some promoters."""

    predictions_BT: NDArray[np.float32]
    """Of the promoters as they are: responses in training units, log-odds of a binary model."""
    values_BTLA: NDArray[np.float32]
    """Hypothetical contributions: what each base would add at each position, centred over the four bases (they sum
    to 0); 0 where the promoter has N. In the units of the predictions."""
    gap_BT: NDArray[np.float32] | None = None
    """Of methods that promise a sum, what the sum of contributions before centring misses; None for others."""


class Attributor(Protocol):
    """A method ready to run on a model and treatments."""

    promoters_at_once: int
    """How many promoters a call had best get."""

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) as the model sees them: 0..3 = ACGT, 4 = N."""


def centred(values: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Values (B, T, L, 4) with their mean over the four bases removed, in place; 0 at N."""
    values -= values.mean(axis=-1, keepdims=True)
    np.putmask(values, np.broadcast_to((codes_BL >= UNKNOWN)[:, None, :, None], values.shape), 0)
    return values


def contributions(values_BTLA: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The value of the base that is there, (B, T, L): positive where it raises the response; 0 at N."""
    present_BLA = codes_BL[..., None] == np.arange(4, dtype=np.uint8)
    summed: NDArray[np.float32] = np.einsum("btla,bla->btl", values_BTLA, present_BLA.astype(np.float32))
    return summed
