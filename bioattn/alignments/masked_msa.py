"""The masked MSA of AlphaFold 2 (supplement 1.2.7): cells replaced by the mask, another residue or themselves."""

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import MASK, NUM_MSA_CLASSES, NUM_PROFILE_CLASSES, RESIDUES

UNIFORM_FRACTION = 0.1
PROFILE_FRACTION = 0.1
SAME_FRACTION = 0.1
MASK_FRACTION = 1 - UNIFORM_FRACTION - PROFILE_FRACTION - SAME_FRACTION
"""Of the chosen cells, the parts drawn uniformly from the 20 residues, drawn from the column's profile, left as
they were, and masked."""


def replacement_probabilities(
    codes: NDArray[np.integer], profile: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Probability of each of the 23 classes for chosen cells: shape (*codes.shape, 23), each row sums to 1.

    codes: classes 0..21 of the cells. profile: (*codes.shape, 22), or what broadcasts to it: the profile of the
    column each cell stands in.
    """
    probabilities = np.zeros((*codes.shape, NUM_MSA_CLASSES))
    probabilities[..., : len(RESIDUES)] = UNIFORM_FRACTION / len(RESIDUES)
    probabilities[..., :NUM_PROFILE_CLASSES] += PROFILE_FRACTION * profile
    own = codes[..., None].astype(np.intp)
    np.put_along_axis(
        probabilities, own, np.take_along_axis(probabilities, own, axis=-1) + SAME_FRACTION, axis=-1
    )
    probabilities[..., MASK] = MASK_FRACTION
    return probabilities


def mask_msa(
    msa: NDArray[np.uint8], profile: NDArray[np.floating], fraction: float, random: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Replace a random `fraction` of all cells, gaps and the first row included.

    msa: (S, R) classes 0..21; profile: (R, 22). Returns the new MSA (classes 0..22) and which cells were chosen,
    whether or not the draw left them as they were: those a model is asked to restore.
    """
    chosen = random.random(msa.shape) < fraction
    cells = msa[chosen]
    cumulative = replacement_probabilities(cells, profile[np.nonzero(chosen)[1]]).cumsum(axis=-1)
    draw = random.random(len(cells)) * cumulative[:, -1]
    masked = msa.copy()
    # The last class is the mask, so rounding at the upper end cannot give a class without probability.
    masked[chosen] = (cumulative[:, :-1] <= draw[:, None]).sum(axis=-1)
    return masked, chosen
