"""Attention of one promoter as a script can read it: numbers from 0 to 63 per row, deflated, base64.

A row (one treatment and head) is stored relative to its largest weight, in steps of a sixty-third of it: finer
than a track of 60 pixels can show, and a third smaller than 255 steps. Contributions are signed, in steps of
1/63 of the largest of their row.

Layout before deflate: the largest weights (treatment, head) of every site and the largest contributions
(treatment), float32 little-endian; then the steps (treatment, head, bin) of every site, one byte each; then
those of the contributions (treatment, position), signed.
"""

import base64
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEPS = 63


class Steps(NamedTuple):
    """Rows in steps."""

    largest: NDArray[np.float32]
    """(…): the largest magnitude of each row."""
    steps: NDArray[np.int8]
    """(…, K): −63 to 63."""

    def values(self) -> NDArray[np.float64]:
        """The array that was put in steps, but for rounding."""
        return self.largest[..., None].astype(np.float64) * self.steps / STEPS


def quantised(values: NDArray[np.floating]) -> Steps:
    """An array (…, K) whose last axis is a row each, in steps."""
    largest = np.abs(values).max(axis=-1).astype(np.float32)
    scale = np.where(largest > 0, largest, 1).astype(np.float64)
    return Steps(largest, np.rint(values / scale[..., None] * STEPS).astype(np.int8))


def pack(parts: Sequence[Steps]) -> bytes:
    """Deflated bytes of several arrays."""
    largest = b"".join(part.largest.astype("<f4").tobytes() for part in parts)
    return zlib.compress(largest + b"".join(part.steps.tobytes() for part in parts), 9)


def as_text(packed: bytes) -> str:
    """Base64."""
    return base64.b64encode(packed).decode("ascii")


def pack_bytes(values: NDArray[np.floating] | NDArray[np.uint8]) -> str:
    """An array rounded to whole numbers from 0 to 255, deflated, base64."""
    return as_text(zlib.compress(np.rint(values).astype(np.uint8).tobytes(), 9))
