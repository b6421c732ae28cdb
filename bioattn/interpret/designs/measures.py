"""How designs differ from real promoters, whatever they do. Shape suffixes: B sequences, L positions."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.interpret.designs.oracle import kmer_counts

Codes = NDArray[np.uint8]
NEAR_K = 8
"""Words by whose number two sequences are near."""


def kmer_distance(one_BL: Codes, other_BL: Codes, k: int) -> float:
    """Half the sum of differences of the k-mer frequencies of two sets (total variation), 0 to 1."""
    shares = []
    for codes in (one_BL, other_BL):
        counts = sum(kmer_counts(codes[first : first + 512], k).sum(0) for first in range(0, len(codes), 512))
        shares.append(np.asarray(counts)[:-1] / max(1, np.asarray(counts)[:-1].sum()))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def nearest(codes_BL: Codes, others_BL: Codes, *, same: bool = False) -> NDArray[np.float64]:
    """Of each sequence the largest share of its 8-mers that one other sequence holds, (B,).

    same: both are one set, of which a sequence is no neighbour of itself.
    """
    others = _words(others_BL)
    found = []
    for first in range(0, len(codes_BL), 256):
        own = _words(codes_BL[first : first + 256])
        shared = (own @ others.T).toarray()
        if same:
            shared[np.arange(len(shared)), first + np.arange(len(shared))] = 0
        found.append(shared.max(1) / np.maximum(1, own.sum(1)))
    return np.concatenate(found)


def _words(codes_BL: Codes) -> csr_array:
    """Which 8-mers occur, 0 or 1, (B, 4^8)."""
    windows = np.lib.stride_tricks.sliding_window_view(codes_BL, NEAR_K, axis=1)
    numbers = windows.astype(np.int64) @ 4 ** np.arange(NEAR_K - 1, -1, -1)
    known = (windows < 4).all(-1)
    rows = np.broadcast_to(np.arange(len(codes_BL))[:, None], numbers.shape)
    cells = np.unique(np.stack([rows[known], numbers[known]]), axis=1)
    return csr_array((np.ones(cells.shape[1]), cells), shape=(len(codes_BL), 4**NEAR_K))
