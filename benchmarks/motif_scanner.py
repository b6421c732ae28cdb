"""What could be known: attention of a reader that is told the motifs.

The scanner sees what a model sees, the sequence, and knows what a model must learn: each treatment's motif matrix
and the composition of the background. Its attention is the posterior of the site's place, so that no model can
expect to point more surely; it errs where a chance match looks better than a substituted site.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.meme import Motif
from bioattn.interpret.position_maps import bin_sums

PSEUDO_PROBABILITY = 1e-6


def scan_place(
    codes: NDArray[np.uint8], motif: Motif, background: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Posterior of a motif's bases, given that each sequence holds it once, on either strand, at any place alike.

    codes: (sequences, length), no N. background: probabilities of A, C, G, T outside sites, shape (4,). Returns
    (sequences, length), rows sum to 1: the posterior of each start, shared equally by the bases of the site.
    """
    log_odds = np.log((motif.probabilities + PSEUDO_PROBABILITY) / background)
    starts = codes.shape[1] - motif.width + 1
    # The complement of base b is 3 - b, so turning the matrix round both ways is its reverse complement.
    strands = []
    for matrix in (log_odds, log_odds[::-1, ::-1]):
        score = np.zeros((codes.shape[0], starts))
        for position in range(motif.width):
            score += matrix[position][codes[:, position : position + starts]]
        strands.append(score)
    evidence = np.logaddexp(strands[0], strands[1])
    posterior = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    bases = np.zeros(codes.shape)
    for position in range(motif.width):
        bases[:, position : position + starts] += posterior / motif.width
    return bases


def scanner_attention(
    codes: NDArray[np.uint8], motifs: Sequence[Sequence[Motif]], key_edges: Sequence[int]
) -> NDArray[np.float64]:
    """The scanner's attention to bins: (sequences, treatments, bins).

    motifs: for each treatment the motifs it needs (one, or a pair, which share the attention). key_edges as in
    `bioattn.interpret.position_maps.upsample`. The background is the composition of `codes`.
    """
    background = np.bincount(codes.ravel(), minlength=4)[:4] / codes.size
    maps = []
    for needed in motifs:
        bases = np.mean([scan_place(codes, motif, background) for motif in needed], axis=0)
        maps.append(bin_sums(bases, key_edges))
    return np.stack(maps, axis=1)
