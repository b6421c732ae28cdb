"""Homology of chains by sequence: homologous chains on different sides of a split make a test too easy.

Local alignment with BLOSUM62 and gap costs 11 and 1; two chains are related when a score as high is expected by
chance less than once in 1,000 datasets of this size (Karlin-Altschul statistics with BLAST's parameters for these
costs).
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from Bio.Align import PairwiseAligner, substitution_matrices
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from bioattn.structures.chain import scorable
from bioattn.system.progress import NoProgress, Progress

MAX_EXPECTED = 1e-3
MAX_PAIRS = 1_000_000
"""Largest number of pairs; more would take longer than some minutes."""
_LAMBDA, _K = 0.267, 0.041


class RelatedPair(NamedTuple):
    """Two chains, by index, and how they align."""

    first: int
    second: int
    identity: float
    """Fraction of the aligned residues that are equal."""
    aligned: int
    """Number of aligned residues."""


def related_pairs(sequences: Sequence[str], progress: Progress | None = None) -> list[RelatedPair]:
    """All pairs of related sequences of one-letter codes, in ascending order."""
    progress = progress or NoProgress()
    aligner = PairwiseAligner(mode="local")
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")
    aligner.open_gap_score, aligner.extend_gap_score = -11, -1
    texts = [scorable(sequence) for sequence in sequences]
    number = math.comb(len(texts), 2)
    progress.begin("comparing chains", len(texts))
    pairs = []
    for first, second in combinations(range(len(texts)), 2):
        if second == first + 1:
            progress.advance()
        if not texts[first] or not texts[second]:
            continue
        chances = _K * len(texts[first]) * len(texts[second]) * number
        if chances * math.exp(-_LAMBDA * aligner.score(texts[first], texts[second])) >= MAX_EXPECTED:
            continue
        blocks = zip(*aligner.align(texts[first], texts[second])[0].aligned, strict=True)
        letters = [
            texts[first][start + step] == texts[second][other + step]
            for (start, end), (other, _) in blocks
            for step in range(end - start)
        ]
        pairs.append(RelatedPair(first, second, sum(letters) / len(letters), len(letters)))
    progress.end()
    return pairs


def families(number: int, pairs: Sequence[RelatedPair]) -> list[int]:
    """For each of `number` chains, the lowest index among its direct and indirect relatives."""
    links = csr_array(
        (np.ones(len(pairs)), ([pair.first for pair in pairs], [pair.second for pair in pairs])),
        shape=(number, number),
    )
    labels = connected_components(links, directed=False)[1]
    first_of: dict[int, int] = {}
    return [first_of.setdefault(int(label), index) for index, label in enumerate(labels)]
