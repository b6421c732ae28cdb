"""Shuffling sequences so that every pair of neighbouring bases occurs as often as before.

A sequence is a walk along edges from base to base, and any other walk along all the same edges from the same
first base is a shuffle of it that ends at the same last base (Altschul & Erickson 1985). The edges by which bases
are left for the last time form a tree that leads to the last base; with a uniform random tree (Wilson 1996:
loop-erased random walks) and the other edges in any order, every such sequence is equally likely.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.nucleotides import UNKNOWN


def dinucleotide_shuffled(codes_BL: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Random sequences with the first base, last base and dinucleotide counts of each of `codes_BL` (uint8), each
    possible one equally likely. Runs of known bases are shuffled each for itself; N stays where it is."""
    shuffled_BL = codes_BL.copy()
    for codes_L in shuffled_BL:
        known_L = np.concatenate([[False], codes_L < UNKNOWN, [False]])
        ends = np.flatnonzero(known_L[1:] != known_L[:-1])
        for first, last in ends.reshape(-1, 2):
            codes_L[first:last] = _shuffled_run(codes_L[first:last], rng)
    return shuffled_BL


def _shuffled_run(codes_L: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    followers = [codes_L[1:][codes_L[:-1] == base].tolist() for base in range(4)]
    for base, last_step in _random_tree(followers, int(codes_L[-1]), rng).items():
        # One copy of the tree's edge is taken last; the others come before it in any order.
        followers[base].remove(last_step)
        followers[base] = [*rng.permutation(followers[base]).tolist(), last_step]
    root = int(codes_L[-1])
    followers[root] = rng.permutation(followers[root]).tolist()
    steps = [iter(options) for options in followers]
    path = [int(codes_L[0])]
    for _ in range(len(codes_L) - 1):
        path.append(int(next(steps[path[-1]])))
    return np.array(path, dtype=np.uint8)


def _random_tree(followers: list[list[int]], root: int, rng: np.random.Generator) -> dict[int, int]:
    """The edge by which each base but `root` is left for the last time: a random tree that leads to `root`."""
    edges: dict[int, int] = {}
    in_tree = {root}
    for base in range(4):
        if not followers[base]:
            continue
        walker = base
        while walker not in in_tree:
            edges[walker] = followers[walker][rng.integers(len(followers[walker]))]
            walker = edges[walker]
        walker = base
        while walker not in in_tree:
            in_tree.add(walker)
            walker = edges[walker]
    return edges
