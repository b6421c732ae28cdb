"""DNA letters as uint8 codes: A=0, C=1, G=2, T=3 and 4 for N and every other ambiguity letter.

Codes are what is stored and sent around, one byte a base.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError

LETTERS = "ACGTN"
UNKNOWN = 4
AMBIGUITY_LETTERS = "NRYSWKMBDHVX"  # X is how some programs mask; it is read as N like the rest

_CODES = dict.fromkeys(AMBIGUITY_LETTERS, UNKNOWN) | dict(zip("ACGT", range(4), strict=True))
_CODE_OF_BYTE = bytes(_CODES.get(chr(byte).upper(), 255) for byte in range(256))
_BYTE_OF_CODE = LETTERS.encode() + b"?" * (256 - len(LETTERS))
_COMPLEMENT = np.array([3, 2, 1, 0, 4], dtype=np.uint8)


def encode(sequence: bytes | str, name: str = "sequence", offset: int = 0) -> NDArray[np.uint8]:
    """Codes of a DNA sequence, upper or lower case (soft masking is ignored).

    `name` and `offset` (bases of the record before this piece) only serve the message.

    Raises: FormatError naming the record and the 1-based position of a letter that is not DNA, such as U (RNA),
    a protein letter or a gap.

    >>> encode("ACGTNracgt").tolist()
    [0, 1, 2, 3, 4, 4, 0, 1, 2, 3]
    """
    raw = sequence.encode("utf-8", "replace") if isinstance(sequence, str) else sequence
    codes = np.frombuffer(bytearray(raw.translate(_CODE_OF_BYTE)), dtype=np.uint8)
    if codes.size and int(codes.max()) > UNKNOWN:
        index = int(np.argmax(codes > UNKNOWN))
        letter, where = chr(raw[index]), f"{name}, position {offset + index + 1:,}: "
        if letter in "Uu":
            raise FormatError(f"{where}the letter {letter!r} belongs to RNA; DNA is needed, write T for U")
        if letter in "-.*":
            raise FormatError(f"{where}the character {letter!r} is a gap or stop; unaligned DNA is needed")
        raise FormatError(
            f"{where}{letter!r} is not a DNA letter (A, C, G, T, N and the IUPAC ambiguity letters are)"
        )
    return codes


def count_nucleotides(sequence: str) -> int:
    """Letters of a sequence that are bases of DNA or RNA, or N."""
    return sum(map(sequence.upper().count, "ACGTUN"))


def are_nucleotides(nucleotides: int, letters: int) -> bool:
    """Tell whether letters are DNA or RNA, not a protein: more than 98 % of ten or more are A, C, G, T, U or N."""
    return letters >= 10 and nucleotides > 0.98 * letters


def decode(codes: NDArray[np.uint8]) -> str:
    """Letters of a one-dimensional code array; every ambiguity comes back as N.

    >>> decode(encode("acgty"))
    'ACGTN'
    """
    return codes.astype(np.uint8, copy=False).tobytes().translate(_BYTE_OF_CODE).decode("ascii")


def reverse_complement(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The other strand read 5'->3', along the last axis; a new array.

    >>> decode(reverse_complement(encode("AACGN")))
    'NCGTT'
    """
    complement: NDArray[np.uint8] = _COMPLEMENT[codes[..., ::-1]]
    return complement


def dinucleotide_shuffled(codes_BL: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Random sequences with the first base, last base and dinucleotide counts of each of `codes_BL` (uint8), each
    possible one equally likely. Runs of known bases are shuffled each for itself; N stays where it is.

    A sequence is a walk along edges from base to base, and any other walk along all the same edges from the same
    first base is a shuffle of it that ends at the same last base (Altschul & Erickson 1985). The edges by which
    bases are left for the last time form a tree that leads to the last base; with a uniform random tree (Wilson
    1996: loop-erased random walks) and the other edges in any order, every such sequence is equally likely.
    """
    shuffled_BL = codes_BL.copy()
    for codes_L in shuffled_BL:
        known_L = np.concatenate([[False], codes_L < UNKNOWN, [False]])
        ends = np.flatnonzero(known_L[1:] != known_L[:-1])
        for first, last in ends.reshape(-1, 2):
            codes_L[first:last] = _shuffled_run(codes_L[first:last], rng)
    return shuffled_BL


def _shuffled_run(codes_L: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    followers = [codes_L[1:][codes_L[:-1] == base].tolist() for base in range(4)]
    root = int(codes_L[-1])
    # A random tree that leads to the root: the edge by which each other base is left for the last time.
    edges: dict[int, int] = {}
    in_tree = {root}
    for base in (base for base in range(4) if followers[base]):
        walker = base
        while walker not in in_tree:
            edges[walker] = followers[walker][rng.integers(len(followers[walker]))]
            walker = edges[walker]
        walker = base
        while walker not in in_tree:
            in_tree.add(walker)
            walker = edges[walker]
    for base, last_step in edges.items():
        # One copy of the tree's edge is taken last; the others come before it in any order.
        followers[base].remove(last_step)
        followers[base] = [*rng.permutation(followers[base]).tolist(), last_step]
    followers[root] = rng.permutation(followers[root]).tolist()
    steps = [iter(options) for options in followers]
    path = [int(codes_L[0])]
    for _ in range(len(codes_L) - 1):
        path.append(int(next(steps[path[-1]])))
    return np.array(path, dtype=np.uint8)
