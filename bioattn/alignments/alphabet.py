"""Amino-acid letters as the integers AlphaFold 2 was trained with.

Two codings of the same letters are in use there, and they differ for rare letters: rows of an alignment read B as
D, Z as E and U as C, the query's `aatype` reads all three as unknown.
"""

import numpy as np
from numpy.typing import NDArray

RESIDUES = "ARNDCQEGHILKMFPSTWYV"
"""Codes 0..19, in model order."""
UNKNOWN = 20
GAP = 21
MASK = 22
NUM_MSA_CLASSES = 23
"""Residues, unknown, gap and mask: `msa`, `extra_msa` and cluster profiles."""
NUM_PROFILE_CLASSES = 22
"""Residues, unknown and gap: the profile of the whole alignment."""
NUM_AATYPES = 21
"""Residues and unknown: the query."""

_READ_AS = {"B": "D", "Z": "E", "U": "C"}
"""Letters that rows of an alignment have as another residue, and the query as unknown."""
_NOT_A_CODE = 255
_MSA_CODES = np.full(256, _NOT_A_CODE, np.uint8)
for _code, _letter in enumerate(RESIDUES + "X-"):
    _MSA_CODES[ord(_letter)] = _code
for _letter, _other in _READ_AS.items():
    _MSA_CODES[ord(_letter)] = _MSA_CODES[ord(_other)]
_MSA_CODES[[ord("J"), ord("O")]] = UNKNOWN
_LETTERS = np.frombuffer((RESIDUES + "X-#").encode(), np.uint8)


def msa_codes(residues: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Codes 0..21 of ASCII upper-case letters and `-`, any shape: B as D, Z as E, U as C; J, O, X unknown.

    Raises: ValueError when there is another character; the readers of alignments let none through.

    >>> msa_codes(np.frombuffer(b"ARVBZUX-", np.uint8)).tolist()
    [0, 1, 19, 3, 6, 4, 20, 21]
    """
    codes = _MSA_CODES[residues]
    if codes.size and codes.max() == _NOT_A_CODE:
        letter = chr(int(residues[codes == _NOT_A_CODE][0]))
        raise ValueError(f"{letter!r} is not an upper-case amino-acid letter or '-'")
    return codes


def aatype_codes(residues: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Codes 0..20 of the query's ASCII letters: B, J, O, U, X, Z and gaps are all unknown.

    Raises: ValueError as `msa_codes`.

    >>> aatype_codes(np.frombuffer(b"ARVBZUX-", np.uint8)).tolist()
    [0, 1, 19, 20, 20, 20, 20, 20]
    """
    codes = np.minimum(msa_codes(residues), UNKNOWN).astype(np.int32)
    codes[np.isin(residues, [ord(letter) for letter in _READ_AS])] = UNKNOWN
    return codes


def letters_of(codes: NDArray[np.integer]) -> str:
    """One-dimensional codes 0..22 as text; X is unknown, `-` gap, `#` mask.

    >>> letters_of(np.array([0, 1, 19, 20, 21, 22]))
    'ARVX-#'
    """
    text: bytes = _LETTERS[codes].tobytes()
    return text.decode("ascii")
