"""Background that looks like the promoter itself: its bases in another order, every pair of neighbours as often.

Altschul & Erickson 1985: the sequence is a walk along edges from base to base; another walk along the same edges
from the same first base has the same dinucleotides, and ends at the same last base.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.faithfulness.samples import Codes

BASES = 4


def dinucleotide_shuffled(codes_BL: Codes, rng: np.random.Generator) -> Codes:
    """Each promoter shuffled by itself, its dinucleotides kept; N (code 4) stays where it is, and each stretch
    between two N is shuffled by itself. uint8 (B, L)."""
    result = codes_BL.copy()
    for row in result:
        known = np.concatenate([[False], row < BASES, [False]])
        starts, ends = np.flatnonzero(~known[:-1] & known[1:]), np.flatnonzero(known[:-1] & ~known[1:])
        for start, end in zip(starts, ends, strict=True):
            row[start:end] = _walk(row[start:end], rng)
    return result


def _walk(codes_L: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Another walk along the same edges."""
    if len(codes_L) < BASES:
        return codes_L
    last = int(codes_L[-1])
    following = [codes_L[1:][codes_L[:-1] == base].tolist() for base in range(BASES)]
    exits = _last_exits(following, last, rng)
    for base, after in enumerate(following):
        if base in exits:
            after.remove(exits[base])
        order = rng.permutation(len(after))
        following[base] = [after[number] for number in order]
        if base in exits:
            following[base].append(exits[base])
    walk, used = [int(codes_L[0])], [0] * BASES
    for _ in range(len(codes_L) - 1):
        base = walk[-1]
        walk.append(following[base][used[base]])
        used[base] += 1
    return np.array(walk, np.uint8)


def _last_exits(following: list[list[int]], last: int, rng: np.random.Generator) -> dict[int, int]:
    """By base, where its last edge goes, so that every base that occurs leads to `last` by such edges: else the
    walk would end before all edges are used."""
    present = [base for base in range(BASES) if following[base] and base != last]
    while True:
        exits = {base: following[base][int(rng.integers(len(following[base])))] for base in present}
        if all(_reaches(base, last, exits) for base in present):
            return exits


def _reaches(base: int, last: int, exits: dict[int, int]) -> bool:
    for _ in range(BASES):
        if base == last:
            return True
        if base not in exits:
            return False
        base = exits[base]
    return base == last
