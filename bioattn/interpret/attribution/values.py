"""What every attribution method returns, and how its numbers are to be read.

Shape suffixes: B promoters, T treatments, L bases, A the four bases A, C, G, T.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Attribution(NamedTuple):
    """Attribution of some promoters."""

    predictions_BT: NDArray[np.float32]
    """Of the promoters as they are: responses in training units, log-odds of a binary model."""
    values_BTLA: NDArray[np.float32]
    """Hypothetical contributions: what each base would add at each position, centred over the four bases (they sum
    to 0); 0 where the promoter has N. In the units of the predictions."""


def centred(values: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Values (B, T, L, 4) with their mean over the four bases removed, in place; 0 at N (code 4)."""
    values -= values.mean(axis=-1, keepdims=True)
    np.putmask(values, np.broadcast_to((codes_BL > 3)[:, None, :, None], values.shape), 0)
    return values


def contributions(values_BTLA: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The value of the base that is there, (B, T, L): positive where it raises the response; 0 at N."""
    present_BLA = codes_BL[..., None] == np.arange(4, dtype=np.uint8)
    summed: NDArray[np.float32] = np.einsum("btla,bla->btl", values_BTLA, present_BLA.astype(np.float32))
    return summed
