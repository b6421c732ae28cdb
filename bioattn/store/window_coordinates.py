"""From positions in a promoter's window to the chromosome."""

import h5py
import numpy as np
from numpy.typing import NDArray


def recorded_downstream(file: h5py.File) -> int | None:
    """Positions of a file's window from position 0 of each gene on; None when the file does not say."""
    return int(file.attrs["downstream"]) if "downstream" in file.attrs else None


def downstream_fits(file: h5py.File) -> bool:
    """Whether that number, if there is one, can be one of this window."""
    found = np.asarray(file.attrs.get("downstream", 0))
    fits = found.shape == () and found.dtype.kind == "i" and 0 <= found <= file.attrs.get("window_length", 0)
    return bool(fits)


def genomic_interval(
    window_start: NDArray[np.int64],
    window_end: NDArray[np.int64],
    start: int,
    end: int,
    strand: str,
    window_length: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Chromosome coordinates (0-based, half-open) of window intervals, clipped to the gene's window.

    A promoter shorter than the window lies at its right (3') end, so the window's right edge is the promoter's:
    `end` on the + strand, `start` on the − strand. Position p is base `end - window_length + p` on the + strand
    and `start + window_length - 1 - p` on the − strand.

    >>> genomic_interval(np.array([2]), np.array([4]), 100, 110, "+", 10)
    (array([102]), array([104]))
    >>> genomic_interval(np.array([2]), np.array([4]), 100, 110, "-", 10)
    (array([106]), array([108]))
    """
    if strand == "+":
        first, last = end - window_length + window_start, end - window_length + window_end
    else:
        first, last = start + window_length - window_end, start + window_length - window_start
    return np.clip(first, start, end), np.clip(last, start, end)
