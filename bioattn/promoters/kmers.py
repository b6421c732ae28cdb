"""The k-mers of promoters, a k-mer and its reverse complement counting as one."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Integer = TypeVar("Integer", np.int32, np.int64)

DEFAULT_K = 14
"""Long enough that two unrelated promoters rarely share one (4^14 / 2 = 134 million canonical 14-mers)."""

ROWS_AT_ONCE = 1024
_NONE = np.int32(np.iinfo(np.int32).max)


def distinct_kmers(
    codes_GL: NDArray[np.uint8], k: int = DEFAULT_K
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct canonical k-mers of every promoter.

    codes_GL: (promoters, bases), A=0 C=1 G=2 T=3 N=4. Returns (kmers, offsets): those of promoter i are
    `kmers[offsets[i]:offsets[i + 1]]`, ascending, two bits a base, first base highest. k: 1 to 15.

    >>> from bioattn.formats.nucleotides import encode
    >>> kmers, offsets = distinct_kmers(encode("ACGTNAC")[None], k=2)
    >>> kmers.tolist(), offsets.tolist()  # AC = GT = 1, CG = 6; nothing spans the N
    ([1, 6], [0, 2])
    """
    counts = np.zeros(len(codes_GL) + 1, dtype=np.int64)
    parts = []
    for first in range(0, len(codes_GL), ROWS_AT_ONCE):
        part_GL = codes_GL[first : first + ROWS_AT_ONCE]
        places = max(0, codes_GL.shape[1] - k + 1)
        forward, backward = np.zeros((2, len(part_GL), places), dtype=np.int32)
        unknown = np.zeros((len(part_GL), places), dtype=np.bool_)
        for offset in range(k):
            column = part_GL[:, offset : offset + places]
            unknown |= column > 3
            base = (column & 3).astype(np.int32)
            forward = (forward << 2) | base
            backward |= (3 - base) << (2 * offset)
        rows = np.sort(np.where(unknown, _NONE, np.minimum(forward, backward)), axis=1)
        new = rows != _NONE
        new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
        counts[first + 1 : first + 1 + len(rows)] = new.sum(axis=1)
        parts.append(rows[new])
    kmers = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
    return kmers, np.cumsum(counts)


def distinct_values(values: NDArray[Integer]) -> NDArray[Integer]:
    """The distinct ones of many integers, ascending. `np.unique` hashes them, which takes fifty times as long.

    >>> distinct_values(np.array([3, 0, 3])).tolist()
    [0, 3]
    """
    ordered = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def canonical_columns(k: int) -> NDArray[np.int64]:
    """Feature column of every k-mer when a k-mer and its reverse complement share one: shape=(4^k,).

    >>> canonical_columns(1).tolist()  # A C G T
    [0, 1, 1, 0]
    """
    kmer = np.arange(4**k)
    remaining, reverse_complement = kmer.copy(), np.zeros_like(kmer)
    for _ in range(k):
        reverse_complement = reverse_complement * 4 + (3 - remaining % 4)
        remaining //= 4
    return np.unique(np.minimum(kmer, reverse_complement), return_inverse=True)[1].ravel()


def is_low_complexity(kmers: NDArray[np.int32], k: int) -> NDArray[np.bool_]:
    """Whether a k-mer repeats a unit of at most four bases or comes near it: fewer than six different 3-mers.

    A random 14-mer holds twelve 3-mers, nearly all different; poly-A has one, (CA)n two, (GATA)n four. Such runs
    arise anywhere by replication slippage, so sharing them is no sign of common descent. Needs k >= 8.
    """
    triplets = np.empty((len(kmers), k - 2), dtype=np.uint8)
    for position in range(k - 2):
        triplets[:, position] = (kmers >> (2 * position)) & 63
    triplets.sort(axis=1)
    return np.asarray((triplets[:, 1:] != triplets[:, :-1]).sum(axis=1) + 1 < 6)
