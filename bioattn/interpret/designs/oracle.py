"""The k-mers of sequences: an oracle of what they tell of responses, and how designs differ from real promoters.

Shape suffixes: B sequences, L positions, T treatments.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Codes = NDArray[np.uint8]
Floats = NDArray[np.float64]

K = 6
PENALTIES = 10.0 ** np.arange(0, 6)
AT_ONCE = 512
NEAR_K = 8
"""Words by whose number two sequences are near."""


class KmerOracle:
    """A ridge regression on counts of 6-mers of the given strand, of whose penalties the one with the smallest
    leave-one-out error is taken for each treatment."""

    def __init__(self, codes_BL: Codes, targets_BT: Floats) -> None:
        """targets_BT: NaN where a response was not measured."""
        counts_BF = kmer_counts(codes_BL, K)
        self.weights_FT = np.zeros((counts_BF.shape[1], targets_BT.shape[1]))
        kernels: dict[bytes, _Kernel] = {}
        for place, targets_B in enumerate(targets_BT.T):
            known = ~np.isnan(targets_B)
            if known.tobytes() not in kernels:
                kernels[known.tobytes()] = _Kernel(counts_BF[known])
            self.weights_FT[:, place] = kernels[known.tobytes()].ridge(targets_B[known])

    def scores(self, codes_BL: Codes) -> Floats:
        """Responses (B, T), up to a constant of each treatment."""
        return np.concatenate(
            [
                self.weights_FT[_kmers(codes_BL[first : first + AT_ONCE], K)].sum(1)
                for first in range(0, len(codes_BL), AT_ONCE)
            ]
        )


class _Kernel:
    """Sequences by the eigenvectors of the kernel of all their pairs."""

    def __init__(self, counts_BF: Floats) -> None:
        self.centred_BF = counts_BF - counts_BF.mean(0)
        self.values_B, self.vectors_BB = np.linalg.eigh(self.centred_BF @ self.centred_BF.T)

    def ridge(self, targets_B: Floats) -> Floats:
        """Weights of the features, with the penalty whose mean error of leaving each one out is smallest."""
        turned_B = self.vectors_BB.T @ (targets_B - targets_B.mean())
        found = []
        for penalty in PENALTIES:
            shrunk_B = 1 / (np.maximum(self.values_B, 0) + penalty)
            left_B = self.vectors_BB @ (turned_B * shrunk_B)  # (kernel + penalty)^-1 targets
            diagonal_B = self.vectors_BB**2 @ shrunk_B
            found.append((float(np.mean((left_B / diagonal_B) ** 2)), left_B))
        return np.asarray(self.centred_BF.T @ min(found, key=lambda each: each[0])[1])


def _kmers(codes_BL: Codes, k: int) -> NDArray[np.int64]:
    """Numbers of the k-mers at each place, 4^k for one with an unknown base."""
    windows = np.lib.stride_tricks.sliding_window_view(codes_BL, k, axis=1)
    numbers = windows.astype(np.int64) @ 4 ** np.arange(k - 1, -1, -1)
    return np.where((windows < 4).all(-1), numbers, 4**k)


def kmer_counts(codes_BL: Codes, k: int) -> Floats:
    """How often each k-mer occurs in each sequence, last how many places hold an unknown base, (B, 4^k + 1)."""
    size = 4**k + 1
    cells = _kmers(codes_BL, k) + size * np.arange(len(codes_BL))[:, None]
    counts = np.bincount(cells.ravel(), minlength=size * len(codes_BL))
    return counts.reshape(len(codes_BL), size).astype(np.float64)


def kmer_distance(one_BL: Codes, other_BL: Codes, k: int) -> float:
    """Half the sum of differences of the k-mer frequencies of two sets (total variation), 0 to 1."""
    shares = []
    for codes in (one_BL, other_BL):
        parts = (codes[first : first + AT_ONCE] for first in range(0, len(codes), AT_ONCE))
        counts = sum(kmer_counts(part, k).sum(0) for part in parts)
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
    numbers = _kmers(codes_BL, NEAR_K)
    known = numbers < 4**NEAR_K
    rows = np.broadcast_to(np.arange(len(codes_BL))[:, None], numbers.shape)
    cells = np.unique(np.stack([rows[known], numbers[known]]), axis=1)
    return csr_array((np.ones(cells.shape[1]), cells), shape=(len(codes_BL), 4**NEAR_K))
