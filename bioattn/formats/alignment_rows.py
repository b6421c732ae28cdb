"""From rows of letters as a file gives them to an `Alignment`, with the checks that all formats share.

Two readings exist. In A3M and A2M the case carries meaning: lower-case letters are insertions, `.` pads them. In
all other rows every character is a column: lower case is read as upper case, `.`, `~` and `_` as gaps.
"""

from typing import NamedTuple

import numpy as np

from bioattn.errors import FormatError
from bioattn.formats.alignment import LOWER, UPPER, Alignment, Annotations, split_insertions

_MATCH = UPPER + b"-"
_GAPS = b".~_"
_TO_COLUMNS = bytes.maketrans(LOWER + _GAPS, UPPER + b"-" * len(_GAPS))
_HINTS = {
    "*": "a stop; remove it or write X",
    "?": "write X for an unknown residue or - for a gap",
    ".": "a gap is written -",
    "~": "a gap is written -",
    "_": "a gap is written -",
    " ": "a row must not be broken by spaces",
}


class RawRows(NamedTuple):
    """Rows before any reading of their letters."""

    source: str
    """The file, as messages name it."""
    names: list[str]
    descriptions: list[str]
    texts: list[bytes]
    """Letters, white space removed."""
    lines: list[int]
    """1-based line on which each row starts."""

    def place(self, index: int) -> str:
        """`file:line: row 'name'` for messages."""
        return f"{self.source}:{self.lines[index]}: row {self.names[index]!r}"


def match_texts(raw: RawRows) -> list[bytes]:
    """What each row has in match columns under the reading of A3M and A2M."""
    return [text.translate(None, LOWER + b".") for text in raw.texts]


def read_with_insertions(raw: RawRows, annotations: Annotations | None = None) -> Alignment:
    """The A3M and A2M reading: lower-case letters are insertions, `.` is dropped.

    Raises: FormatError for no rows, no match columns, rows with unequal numbers of them, or letters that are no
    residues.
    """
    texts: list[bytes] = []
    insertions: list[dict[int, str]] = []
    for text in raw.texts:
        match, inserted = split_insertions(text.translate(None, b"."))
        texts.append(match)
        insertions.append(inserted)
    return _build(raw, texts, insertions, annotations, "match columns (upper-case letters and '-')")


def read_columns(raw: RawRows, annotations: Annotations | None = None) -> Alignment:
    """The reading of all other formats: each character is a column, whatever its case.

    Raises: FormatError for no rows, no columns, rows of unequal length, or letters that are no residues.
    """
    texts = [text.translate(_TO_COLUMNS) for text in raw.texts]
    return _build(raw, texts, [{} for _ in texts], annotations, "columns")


def _build(
    raw: RawRows,
    texts: list[bytes],
    insertions: list[dict[int, str]],
    annotations: Annotations | None,
    columns: str,
) -> Alignment:
    if not texts:
        raise FormatError(f"{raw.source}: the alignment holds no row")
    letters = bytearray().join(texts)
    if letters.translate(None, _MATCH):
        _refuse_letter(raw, texts)
    width = len(texts[0])
    for index, text in enumerate(texts):
        if len(text) != width:
            raise FormatError(
                f"{raw.place(index)} has {len(text):,} {columns} but the first row, {raw.names[0]!r}, has "
                f"{width:,}; the rows of an alignment are equally long"
            )
    if not width:
        raise FormatError(f"{raw.source}: the first row, {raw.names[0]!r}, has no {columns}")
    return Alignment(
        names=raw.names,
        descriptions=raw.descriptions,
        residues=np.frombuffer(letters, dtype=np.uint8).reshape(len(texts), width),
        insertions=insertions,
        annotations=annotations or Annotations(),
    )


def _refuse_letter(raw: RawRows, texts: list[bytes]) -> None:
    for index, text in enumerate(texts):
        bad = text.translate(None, _MATCH)
        if bad:
            shown = raw.texts[index].decode("utf-8", "replace")
            letter = bad.decode("utf-8", "replace")[0]
            hint = _HINTS.get(letter, "residues are the letters A to Z")
            raise FormatError(f"{raw.place(index)}, position {shown.find(letter) + 1:,}: {letter!r} ({hint})")
