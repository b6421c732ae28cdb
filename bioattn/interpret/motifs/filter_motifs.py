"""What the first layer of a model matches, as motifs."""

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.motif import Motif
from bioattn.inference.runner import FirstLayerRunner
from bioattn.interpret.motifs.discovery import MIN_BITS, trim_vague_ends

MIN_SITES = 10
"""A filter with fewer sites is not shown."""


def filter_motifs(runner: FirstLayerRunner, codes_BL: NDArray[np.uint8]) -> list[Motif]:
    """Motifs named as the filters are; those too vague or rare to show are left out.

    codes_BL: sequences as the model sees them. Raises: BioattnError when its first layer has no filters.
    """
    motifs = []
    for name, counts in runner.first_layer_matches(codes_BL):
        sites = float(counts[0].sum())
        matrix = trim_vague_ends(counts / sites, MIN_BITS) if sites >= MIN_SITES else None
        if matrix is not None:
            motifs.append(Motif(name=name, probabilities=matrix, sites=round(sites)))
    return motifs
