"""CASP's RR format: predicted residue contacts with their probabilities.

    PFRMAT RR
    TARGET 1ubq
    METHOD bioattn 0.3
    MODEL 1
    MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYN
    3 15 0 8 0.98123
    END

Positions count from 1, i < j; two numbers bound the distance in Angstrom; lines stand from the likeliest down.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn.files import text_output

LETTERS_PER_LINE = 50
MIN_SEPARATION = 6
"""CASP scores no contacts closer in sequence."""
SMALLEST = 5e-6
"""What prints as more than 0 with five decimals."""


def write_rr(
    path: Path,
    sequence: str,
    probabilities: NDArray[np.floating],
    *,
    target: str,
    method: Sequence[str],
    columns: NDArray[np.integer] | None = None,
    max_distance: float = 8.0,
    min_separation: int = MIN_SEPARATION,
) -> int:
    """Write contact probabilities; returns how many pairs were written.

    sequence: one letter per position of the target. probabilities: (R, R), symmetric. columns: the 0-based
    position of each of the R rows, ascending; None = R is the length of the sequence. The pairs are those of
    `ranked_pairs`.

    Raises: BioattnError when the file cannot be written.
    """
    places = np.arange(len(sequence)) if columns is None else columns
    first, second = ranked_pairs(probabilities, places, min_separation)
    with text_output(path) as file:
        file.write(f"PFRMAT RR\nTARGET {target}\n")
        file.writelines(f"METHOD {line}\n" for line in method)
        file.write("MODEL 1\n")
        for start in range(0, len(sequence), LETTERS_PER_LINE):
            file.write(sequence[start : start + LETTERS_PER_LINE] + "\n")
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            file.write(f"{places[i] + 1} {places[j] + 1} 0 {max_distance:g} {probabilities[i, j]:.5f}\n")
        file.write("END\n")
    return len(first)


def ranked_pairs(
    probabilities: NDArray[np.floating],
    columns: NDArray[np.integer],
    min_separation: int = MIN_SEPARATION,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows i < j of a symmetric (R, R) map, the likeliest pair first; ties keep the order of i, j.

    columns: (R,) positions, ascending. Pairs closer than `min_separation`, or of a probability that would print as
    0.00000, are left out.
    """
    first, second = np.triu_indices(len(columns), k=1)
    values = probabilities[first, second]
    kept = np.flatnonzero((columns[second] - columns[first] >= min_separation) & (values >= SMALLEST))
    order = kept[np.argsort(-values[kept], kind="stable")]
    return first[order], second[order]
