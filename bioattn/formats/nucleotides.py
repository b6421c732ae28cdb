"""DNA letters as uint8 codes: A=0, C=1, G=2, T=3 and 4 for N and every other ambiguity letter.

Codes are what is stored and sent around, one byte a base.
"""

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError

LETTERS = "ACGTN"
UNKNOWN = 4
AMBIGUITY_LETTERS = "NRYSWKMBDHVX"  # X is how some programs mask; it is read as N like the rest

_INVALID = 255


def _code_table() -> bytes:
    table = np.full(256, _INVALID, dtype=np.uint8)
    for letter in AMBIGUITY_LETTERS:
        table[ord(letter)] = table[ord(letter.lower())] = UNKNOWN
    for code, letter in enumerate("ACGT"):
        table[ord(letter)] = table[ord(letter.lower())] = code
    return table.tobytes()


_CODE_OF_BYTE = _code_table()
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
        raise FormatError(_bad_letter(chr(raw[index]), name, offset + index + 1))
    return codes


def count_nucleotides(sequence: str) -> int:
    """Letters of a sequence that are bases of DNA or RNA, or N."""
    return sum(map(sequence.upper().count, "ACGTUN"))


def are_nucleotides(nucleotides: int, letters: int) -> bool:
    """Tell whether letters are DNA or RNA, not a protein: more than 98 % of ten or more are A, C, G, T, U or N."""
    return letters >= 10 and nucleotides > 0.98 * letters


def _bad_letter(letter: str, name: str, position: int) -> str:
    where = f"{name}, position {position:,}: "
    if letter in "Uu":
        return f"{where}the letter {letter!r} belongs to RNA; DNA is needed, write T for U"
    if letter in "-.*":
        return f"{where}the character {letter!r} is a gap or stop; unaligned DNA is needed"
    return f"{where}{letter!r} is not a DNA letter (A, C, G, T, N and the IUPAC ambiguity letters are)"


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
