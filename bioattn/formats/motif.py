"""A DNA motif as a position probability matrix, and a collection of them with its background."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bioattn.formats.nucleotides import decode

UNIFORM_BACKGROUND = (0.25, 0.25, 0.25, 0.25)
USUAL_SITES = 20
"""What MEME takes where a matrix does not say how many sites it was made of."""
_IUPAC = dict(zip((1, 2, 4, 8, 5, 10, 6, 9, 12, 3, 14, 13, 11, 7, 15), "ACGTRYSWKMBDHVN", strict=True))
"""Letter by the sum of 1 for A, 2 for C, 4 for G, 8 for T."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Motif:
    """A named motif."""

    name: str
    """What it is called in tables and files: an accession or a name, without blanks."""
    probabilities: NDArray[np.float64]
    """Probability of A, C, G, T at each position, shape (width, 4), rows sum to 1."""
    alternative_name: str = ""
    """A second name, such as the factor's; may be empty."""
    sites: int = USUAL_SITES
    """How many sites the probabilities were made of."""

    @property
    def width(self) -> int:
        """Number of positions."""
        return int(self.probabilities.shape[0])

    @property
    def consensus(self) -> str:
        """The most probable base of every position."""
        return decode(self.probabilities.argmax(axis=1).astype(np.uint8))

    @property
    def iupac_consensus(self) -> str:
        """Consensus of one IUPAC letter per position, by Cavener's rules (1987).

        One base above one half and twice the next; else two bases that share three quarters; else N, or the
        letter of three where the fourth base never occurs.
        """
        return "".join(_letter(row) for row in self.probabilities)

    @property
    def information(self) -> float:
        """Information in bits against a uniform background, summed over positions."""
        return float(np.sum(position_information(self.probabilities)))

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.uint8]:
        """Draw `count` sites on the motif's own strand; uint8 codes, shape (count, width)."""
        cumulative = np.cumsum(self.probabilities, axis=1)[:, :-1]
        draws = rng.random((count, self.width))
        sites: NDArray[np.uint8] = (draws[:, :, None] >= cumulative).sum(axis=2).astype(np.uint8)
        return sites

    def reverse_complement(self) -> "Motif":
        """Make the motif of the other strand."""
        return Motif(
            name=self.name,
            probabilities=self.probabilities[::-1, ::-1].copy(),
            alternative_name=self.alternative_name,
            sites=self.sites,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifDatabase:
    """The motifs of a file."""

    motifs: list[Motif]
    """In file order; names are unique."""
    background: NDArray[np.float64] = field(default_factory=lambda: np.array(UNIFORM_BACKGROUND))
    """Frequencies of A, C, G, T outside motifs, shape (4,), sum 1; uniform where the file does not say."""


def position_information(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Bits of each position against a uniform background: (…, 4) probabilities to (…), between 0 and 2.

    >>> position_information(np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4])).tolist()
    [2.0, 1.0, 0.0]
    """
    safe = np.where(probabilities > 0, probabilities, 1.0)
    bits: NDArray[np.float64] = 2 + np.sum(safe * np.log2(safe) * (probabilities > 0), axis=-1)
    return bits


def _letter(row: NDArray[np.float64]) -> str:
    order = np.argsort(-row, kind="stable")
    first, second, third, fourth = (float(row[base]) for base in order)
    bits = 1 << order
    if first > 0.5 and first > 2 * second:
        return _IUPAC[int(bits[0])]
    if first + second > 0.75:
        return _IUPAC[int(bits[:2].sum())]
    return _IUPAC[int(bits[:3].sum())] if fourth == 0 < third else "N"
