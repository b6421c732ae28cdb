"""Sequences of a toy model: codes, padded to the longest, and what is to be said of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bioattn.models.toy.model import PADDING
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import encode


def read_sequences(path: Path) -> dict[str, NDArray[np.uint8]]:
    """Codes of each sequence by its id. Raises: FormatError when there is none or one occurs twice."""
    found: dict[str, NDArray[np.uint8]] = {}
    for record in read_fasta(path):
        if record.name in found:
            raise FormatError(f"{path}: the id {record.name!r} occurs more than once")
        found[record.name] = encode(record.sequence)
    if not found:
        raise FormatError(f"{path}: holds no sequence")
    return found


def padded(sequences: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """(B, L) codes, padding behind the shorter ones."""
    codes_BL = np.full((len(sequences), max(map(len, sequences))), PADDING, np.uint8)
    for row, sequence in zip(codes_BL, sequences, strict=True):
        row[: len(sequence)] = sequence
    return codes_BL


def seen_before(codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(B, L) 1 where the same base stands further left, 0 elsewhere, NaN in padding."""
    earlier_BL = [[code in row[:place] for place, code in enumerate(row)] for row in codes_BL]
    return np.where(codes_BL == PADDING, np.nan, np.array(earlier_BL)).astype(np.float32)
