"""PHYLIP: strict names of ten characters or relaxed ones ending at white space, interleaved or sequential.

Nothing in a file says which of the four it is. All are tried; a row count and row lengths that come out as the
first line says decide.
"""

import re
from typing import NamedTuple

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_rows import WHITE_SPACE, RawRows, empty_rows, read_columns
from bioattn.text import counted

HEADER = re.compile(rb"\s*(\d{1,9})\s+(\d{1,9})((?:\s+[A-Za-z])*)\s*$")
"""Rows, columns and option letters of old programs."""
_NAME_LENGTH = 10
_NO_LETTERS = re.compile(rb"[^A-Za-z?*.~-]")


class _Line(NamedTuple):
    number: int
    text: bytes


class _Misfit(Exception):  # noqa: N818 - not an error until all layouts have failed
    """The file is not in this layout; `line` is how far it went."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def parse_phylip(source: str, data: bytes) -> Alignment:
    """Read a PHYLIP file of one alignment; blank lines are passed over, `?` is read as a gap.

    Raises: FormatError for a first line that is not two numbers, a file that fits none of the four layouts or two
    of them with different rows, letters that are no residues, and `.` in any row but the first: it means the
    letter of the first row in some files and a gap in others, which a `.` in the first row tells.
    """
    lines = [_Line(number, text) for number, text in enumerate(data.split(b"\n"), start=1) if text.strip()]
    found = HEADER.match(lines[0].text) if lines else None
    if not found:
        raise FormatError(f"{source}: a PHYLIP file starts with the numbers of rows and columns")
    num_rows, num_columns = int(found[1]), int(found[2])
    if not num_rows or not num_columns:
        raise FormatError(
            f"{source}:{lines[0].number}: the alignment holds {counted(num_rows, 'row')} of "
            f"{counted(num_columns, 'column')}"
        )
    readings: list[RawRows] = []
    misfits: list[_Misfit] = []
    for strict in (False, True):
        for layout in (_interleaved, _sequential):
            try:
                reading = layout(source, lines[1:], num_rows, num_columns, strict)
            except _Misfit as misfit:
                misfits.append(misfit)
            else:
                if reading not in readings:
                    readings.append(reading)
    if not readings:
        furthest = max(misfits, key=lambda misfit: misfit.line)
        raise FormatError(
            f"{source}:{furthest.line}: {furthest}; the first line promises {counted(num_rows, 'row')} of "
            f"{counted(num_columns, 'column')}"
        )
    if len({tuple(reading.texts) for reading in readings}) > 1:
        raise FormatError(
            f"{source}: can be read as interleaved and as sequential PHYLIP with different rows; write it as FASTA"
        )
    raw = readings[0]
    for index, text in enumerate(raw.texts):
        if b"." in text and b"." not in raw.texts[0]:
            raise FormatError(
                f"{raw.place(index)}: '.' means the letter of the first row in some PHYLIP files and a gap in "
                "others; write the letter or -"
            )
    return read_columns(raw, gaps=b"?.")


def _interleaved(source: str, lines: list[_Line], num_rows: int, num_columns: int, strict: bool) -> RawRows:
    if len(lines) < num_rows:
        raise _Misfit(lines[-1].number if lines else 1, f"the file ends after {counted(len(lines), 'row')}")
    names, parts = [], []
    for line in lines[:num_rows]:
        name, text = _split_name(line, strict)
        names.append(name)
        parts.append([text])
    for place, line in enumerate(lines[num_rows:]):
        parts[place % num_rows].append(_letters(line.number, line.text))
    raw = empty_rows(source)
    for line, name, pieces in zip(lines, names, parts, strict=False):
        text = b"".join(pieces)
        if len(text) != num_columns:
            raise _Misfit(line.number, f"row {name!r} has {counted(len(text), 'column')}")
        raw.add(line.number, name, text)
    return raw


def _sequential(source: str, lines: list[_Line], num_rows: int, num_columns: int, strict: bool) -> RawRows:
    raw = empty_rows(source)
    place = 0
    while place < len(lines):
        start = lines[place]
        if len(raw.names) == num_rows:
            raise _Misfit(start.number, "the file goes on after the last row")
        name, text = _split_name(start, strict)
        place += 1
        pieces = [text]
        length = len(text)
        while length < num_columns and place < len(lines):
            pieces.append(_letters(lines[place].number, lines[place].text))
            length += len(pieces[-1])
            place += 1
        if length != num_columns:
            raise _Misfit(start.number, f"row {name!r} has {counted(length, 'column')}")
        raw.add(start.number, name, b"".join(pieces))
    if len(raw.names) < num_rows:
        raise _Misfit(
            lines[-1].number if lines else 1, f"the file ends after {counted(len(raw.names), 'row')}"
        )
    return raw


def _split_name(line: _Line, strict: bool) -> tuple[str, bytes]:
    if strict:
        name, text = line.text[:_NAME_LENGTH], line.text[_NAME_LENGTH:]
    else:
        name, text = [*line.text.split(maxsplit=1), b""][:2]
    return name.decode("utf-8", "replace").strip(), _letters(line.number, text)


def _letters(number: int, text: bytes) -> bytes:
    """The letters of a line without the spaces people put after every ten."""
    letters = text.translate(None, WHITE_SPACE)
    found = _NO_LETTERS.search(letters)
    if found:
        raise _Misfit(number, f"{found[0].decode('utf-8', 'replace')!r} stands where letters are expected")
    return letters
