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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import CONTACT_DISTANCE, MIN_SEPARATION
from bioattn.errors import FormatError
from bioattn.io.files import read_lines, text_output

LETTERS_PER_LINE = 50
SMALLEST = 5e-6
"""What prints as more than 0 with five decimals."""
RR_START = b"PFRMAT RR"
_TEXT_RECORDS = ("AUTHOR", "REMARK", "METHOD")


class RankedPair(NamedTuple):
    """A line of contacts: positions from 1, i < j, distances in ångström."""

    i: int
    j: int
    least: float
    most: float
    probability: float


@dataclass(slots=True, kw_only=True, repr=False)
class ContactList:
    """An RR file."""

    target: str = ""
    sequence: str = ""
    pairs: list[RankedPair] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{len(self.pairs):,} contacts of {self.target}, {len(self.sequence):,} residues>"


def write_rr(
    path: Path,
    sequence: str,
    probabilities: NDArray[np.floating],
    *,
    target: str,
    method: Sequence[str],
    columns: NDArray[np.integer] | None = None,
) -> int:
    """Write contact probabilities; returns how many pairs were written.

    sequence: one letter per position of the target. probabilities: (R, R), symmetric. columns: the 0-based
    position of each of the R rows, ascending; None = R is the length of the sequence. The pairs are those of
    `ranked_pairs`.

    Raises: BioattnError when the file cannot be written.
    """
    places = np.arange(len(sequence)) if columns is None else columns
    first, second = ranked_pairs(probabilities, places)
    with text_output(path) as file:
        file.write(f"PFRMAT RR\nTARGET {target}\n")
        file.writelines(f"METHOD {line}\n" for line in method)
        file.write("MODEL 1\n")
        for start in range(0, len(sequence), LETTERS_PER_LINE):
            file.write(sequence[start : start + LETTERS_PER_LINE] + "\n")
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            file.write(f"{places[i] + 1} {places[j] + 1} 0 {CONTACT_DISTANCE:g} {probabilities[i, j]:.5f}\n")
        file.write("END\n")
    return len(first)


def ranked_pairs(
    probabilities: NDArray[np.floating], columns: NDArray[np.integer], least: float = SMALLEST
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows i < j of a symmetric (R, R) map, the likeliest pair first; ties keep the order of i, j.

    columns: (R,) positions, ascending. Pairs closer than `MIN_SEPARATION`, or of a value below `least` (a
    probability that would print as 0.00000), are left out.
    """
    first, second = np.triu_indices(len(columns), k=1)
    values = probabilities[first, second]
    kept = np.flatnonzero((columns[second] - columns[first] >= MIN_SEPARATION) & (values >= least))
    order = kept[np.argsort(-values[kept], kind="stable")]
    return first[order], second[order]


def read_rr(path: Path) -> ContactList:
    """Read an RR file of five columns, plain, gzip or xz.

    Raises: FormatError naming the line that is none of the format, or a file that ends before END.
    """
    contacts = ContactList()
    ended = False
    for number, line in read_lines(path):
        words = line.split()
        where = f"{path}:{number}"
        if number == 1 and not line.startswith(RR_START.decode()):
            raise FormatError(f"{where}: is {line[:20]!r}; a CASP RR file begins with PFRMAT RR")
        if not words or number == 1 or words[0] in _TEXT_RECORDS or words[0] == "MODEL":
            continue
        if ended:
            raise FormatError(f"{where}: stands after END")
        if words[0] == "END" and len(words) == 1:
            ended = True
        elif words[0] == "TARGET":
            contacts.target = " ".join(words[1:])
        elif len(words) == 1 and words[0].replace("-", "A").isalpha() and not contacts.pairs:
            contacts.sequence += words[0]
        else:
            contacts.pairs.append(_pair(where, words, len(contacts.sequence)))
    if not ended:
        raise FormatError(f"{path}: ends without END; the file is cut off")
    return contacts


def _pair(where: str, words: list[str], length: int) -> RankedPair:
    try:
        i, j, least, most, probability = words
        pair = RankedPair(int(i), int(j), float(least), float(most), float(probability))
    except ValueError:
        raise FormatError(
            f"{where}: is {' '.join(words)[:40]!r}; two positions, two distances and a probability are needed"
        ) from None
    if not 1 <= pair.i < pair.j or (length and pair.j > length) or not 0 <= pair.probability <= 1:
        raise FormatError(
            f"{where}: {pair.i} and {pair.j} are no pair of the {length:,} positions, i < j, or {probability} "
            "is no probability"
        )
    return pair
