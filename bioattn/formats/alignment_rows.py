"""Rows of letters of an alignment file: which columns are match columns, what `.` means, and checks."""

import logging
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.alignment import LOWER, UPPER, Alignment, split_insertions
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
WHITE_SPACE = b" \t\n\r\v\f"
_MATCH = UPPER + b"-"
_GAPS = b".~_?"
_HINTS = {
    "?": "write X for an unknown residue or - for a gap",
    ".": "write - for a gap",
    "~": "write - for a gap",
    "_": "write - for a gap",
    " ": "a row must not be broken by spaces",
}


@dataclass
class RawRows:
    """Rows of a file whose letters have not been interpreted."""

    source: str
    """The file, as messages name it."""
    names: list[str] = field(default_factory=list)
    descriptions: list[str] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    """Letters, white space removed."""
    lines: list[int] = field(default_factory=list)
    """1-based line on which each row starts."""

    def where(self, index: int) -> str:
        """`file:line: row 'name'` for messages; a long name is cut."""
        return f"{self.source}:{self.lines[index]}: row {self.names[index][:60]!r}"

    def add(self, line: int, name: str, text: bytes, description: str = "") -> None:
        """Append a row; without a name it is given `row` and its number."""
        self.names.append(name or f"row{len(self.names) + 1}")
        self.descriptions.append(description)
        self.texts.append(text)
        self.lines.append(line)


def match_columns_by_case(raw: RawRows) -> NDArray[np.bool_] | None:
    """Mask of the match columns of equally long rows, as their case tells it; None when it does not.

    It does when there is a lower-case letter, and every column holds either lower-case letters and `.` only (an
    insert column) or neither of them (a match column), and there is one of the latter: the convention of A2M,
    which HMMER and Pfam follow in Stockholm files.
    """
    if not raw.texts or len({len(text) for text in raw.texts}) != 1:
        return None
    letters = np.frombuffer(b"".join(raw.texts), dtype=np.uint8).reshape(len(raw.texts), -1)
    lower = (letters >= ord("a")) & (letters <= ord("z"))
    insert = lower | (letters == ord("."))
    match: NDArray[np.bool_] = ~insert.any(axis=0)
    if not lower.any() or not np.array_equal(match, ~insert.all(axis=0)) or not match.any():
        return None
    return match


def read_with_insertions(raw: RawRows) -> Alignment:
    """Read rows of A3M or A2M: lower-case letters are insertions, `.` is dropped.

    Raises: FormatError for no rows, no match columns, rows with unequal numbers of them, or letters that are no
    residues.
    """
    rows = [split_insertions(text.translate(None, b".")) for text in raw.texts]
    which = " (upper-case letters and '-')"
    return _build(raw, [text for text, _ in rows], [each for _, each in rows], "match column", which)


def read_columns(raw: RawRows) -> Alignment:
    """Read rows of any other format: each character is a column, whatever its case.

    `.`, `~`, `_` and `?` are gaps; `.` is the letter of the first row in files written so (`_written_out`).
    Raises: FormatError for no rows, no columns, rows of unequal length, or letters that are no residues.
    """
    to_columns = bytes.maketrans(LOWER + _GAPS, UPPER + b"-" * len(_GAPS))
    texts = [text.translate(to_columns) for text in _written_out(raw)]
    return _build(raw, texts, [{} for _ in texts], "column")


def _written_out(raw: RawRows) -> list[bytes]:
    """The rows with the first row's letter for `.`, where `.` means that, as in MEGA's files; else as they are.

    It means a gap where the first row has it, or a row that has it writes a letter of the first row's in full.
    """
    first, *others = raw.texts or [b""]
    dotted = [text for text in others if b"." in text]
    if not dotted or b"." in first or any(len(text) != len(first) for text in dotted):
        return raw.texts
    letters = np.frombuffer(first.upper(), np.uint8)
    for text in dotted:
        equal = np.frombuffer(text.upper(), np.uint8) == letters
        if (equal & (letters >= ord("A")) & (letters <= ord("Z"))).any():
            return raw.texts
    LOGGER.warning(
        "%s: '.' is read as the letter of the first row, for no row that has it writes such a letter in full; "
        "write - where it means a gap",
        raw.source,
    )
    rows = [np.frombuffer(text, np.uint8) for text in others]
    return [
        first,
        *(
            np.where(row == ord("."), letters, row).tobytes() if ord(".") in row else row.tobytes()
            for row in rows
        ),
    ]


def _build(
    raw: RawRows, texts: list[bytes], insertions: list[dict[int, str]], column: str, which: str = ""
) -> Alignment:
    if not texts:
        raise FormatError(f"{raw.source}: the alignment holds no row")
    letters = bytearray().join(texts)
    if b"*" in letters:
        LOGGER.warning("%s: '*' (a stop) is read as X, an unknown residue", raw.source)
        texts = [text.replace(b"*", b"X") for text in texts]
        letters = letters.replace(b"*", b"X")
    if letters.translate(None, _MATCH):
        index, bad = next((i, bad) for i, text in enumerate(texts) if (bad := text.translate(None, _MATCH)))
        letter = bad.decode("utf-8", "replace")[0]
        position = raw.texts[index].decode("utf-8", "replace").find(letter) + 1
        hint = _HINTS.get(letter, "residues are the letters A to Z")
        raise FormatError(f"{raw.where(index)}, position {position:,}: {letter!r} is no residue ({hint})")
    width = len(texts[0])
    for index, text in enumerate(texts):
        if len(text) != width:
            gaps = any(b"-" in row or b"." in row for row in raw.texts)
            raise FormatError(
                f"{raw.where(index)} has {counted(len(text), column)}{which} but the first row, "
                f"{raw.names[0][:60]!r}, has {width:,}; the rows of an alignment are equally long"
                + ("" if gaps else ", and no row here has a gap: are these sequences aligned?")
            )
    if not width:
        raise FormatError(f"{raw.where(0)}, the first, has no {column}s{which}")
    return Alignment(
        names=raw.names,
        descriptions=raw.descriptions,
        residues=np.frombuffer(letters, dtype=np.uint8).reshape(len(texts), width),
        insertions=insertions,
    )


def has_dots_in_match_columns(raw: RawRows) -> bool:
    """Whether most `.` of equally long rows stand in columns that hold capitals but no lower-case letter."""
    letters = np.frombuffer(b"".join(raw.texts), dtype=np.uint8).reshape(len(raw.texts), -1)
    dots = (letters == ord(".")).sum(axis=0)
    lower = ((letters >= ord("a")) & (letters <= ord("z"))).any(axis=0)
    upper = ((letters >= ord("A")) & (letters <= ord("Z"))).any(axis=0)
    return bool(2 * dots[upper & ~lower].sum() > dots.sum())
